# SPDX-License-Identifier: Apache-2.0
"""Reads the working directory: the plugin's options, and what they ask for."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.errors import UsageError
from ci_doctor.model.words import did_you_mean

# --- what a step's `plugins:` say; the command sees them as the hooks do ---

# The source of this plugin: its repository, by any host, and by Buildkite's short form.
_OURS = re.compile(r"(^|/)ci[-_]doctor(-buildkite-plugin)?(\.git)?(#|$)")


def our_configurations(environ: Mapping[str, str]) -> list[object]:
    """The configuration of each ci-doctor plugin in BUILDKITE_PLUGINS; None for one without."""
    return [value for location, value in _plugins(environ) if _OURS.search(location)]


def configurations_of(name: str, environ: Mapping[str, str]) -> list[Mapping[str, object]]:
    """The configuration of each plugin of this name in BUILDKITE_PLUGINS; empty for one without."""
    named = [value for location, value in _plugins(environ) if plugin_name(location) == name]
    return [value if isinstance(value, dict) else {} for value in named]


def plugin_name(location: str) -> str:
    """The name of a plugin, from its source.

    The last segment in lower case, without `-buildkite-plugin`, as the agent names it
    (https://github.com/buildkite/agent, agent/plugin/plugin.go).
    """
    segment = location.partition("#")[0].rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^a-z0-9]", "-", segment.lower())
    return name.replace("-buildkite-plugin-git", "").replace("-buildkite-plugin", "")


def plugin_prepares(environ: Mapping[str, str]) -> bool:
    """Whether a ci-doctor plugin of this step runs `setup-env` before its command."""
    for configuration in our_configurations(environ):
        options = configuration if isinstance(configuration, dict) else {}
        # A text where a pipeline interpolates a variable.
        if options.get("setup-env") not in (False, "false"):
            return True
    return False


def _plugins(environ: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    """The plugins of a step: a list of mappings with one key each, the plugin's source."""
    try:
        plugins = json.loads(environ.get("BUILDKITE_PLUGINS") or "[]")
    except ValueError:
        return
    for plugin in plugins if isinstance(plugins, list) else []:
        if isinstance(plugin, dict):
            yield from plugin.items()
        # A plugin without a configuration may stand there as a text.
        elif isinstance(plugin, str):
            yield plugin, None


# --- the plugin's option `cache`: what is restored before the command, and saved after it ---

_CACHE_PREFIX = "cache-"


class CacheOption(Struct, frozen=True, kw_only=True):
    """What the step writes; None or empty for what `[cache]` says.

    strict: whether a problem with the restore ends the job before its command. save: whether a command
    that succeeded saves its caches.
    """

    store: str | None = None
    families: tuple[str, ...] = ()
    trust: str | None = None
    key: str | None = None
    allowed_signers: str | None = None
    budget: str | None = None
    strict: bool = False
    save: bool = True


def cache_option(_name: str, value: object) -> CacheOption | None:
    """The option as the agent hands it over; None for false. `true` takes all from `[cache]`.

    Raises UsageError for an unknown key and for a value of the wrong type.
    """
    if value is False or value == "false":
        return None
    if value is True or value == "true":
        return CacheOption()
    if not isinstance(value, dict):
        raise _wrong("", value, "neither true, false nor a mapping")
    fields = {key.replace("-", "_"): _converted_key(key, item) for key, item in value.items()}
    return CacheOption(**fields)  # type: ignore[arg-type]


def nested(values: Mapping[str, object]) -> dict[str, object]:
    """Options of flat variables, with `cache-store` and the like as keys of `cache`."""
    options: dict[str, object] = {}
    inner: dict[str, object] = {}
    for name, value in values.items():
        if name.startswith(_CACHE_PREFIX):
            inner[name.removeprefix(_CACHE_PREFIX)] = value
        else:
            options[name] = value
    if inner:
        options["cache"] = inner
    return options


def restore_arguments(option: CacheOption, config: str | None) -> list[str]:
    """The option as arguments of `ci-doctor cache restore`."""
    words = _shared(option, config)
    if option.trust is not None:
        words += ["--trust", option.trust]
    if option.strict:
        words.append("--strict")
    return words


def save_arguments(option: CacheOption, config: str | None) -> list[str]:
    """The option as arguments of `ci-doctor cache save`; never strict: the job has succeeded."""
    words = _shared(option, config)
    if option.key is not None:
        words += ["--key", option.key]
    return words


def effect_arguments(option: CacheOption, config: str | None) -> list[str]:
    """The option as arguments of `ci-doctor cache verify`."""
    words = ["--effect"]
    if config is not None:
        words += ["--config", config]
    for family in option.families:
        words += ["--family", family]
    return words


def _shared(option: CacheOption, config: str | None) -> list[str]:
    words: list[str] = []
    if config is not None:
        words += ["--config", config]
    if option.store is not None:
        words += ["--store", option.store]
    for family in option.families:
        words += ["--family", family]
    if option.allowed_signers is not None:
        words += ["--allowed-signers", option.allowed_signers]
    if option.budget is not None:
        words += ["--budget", option.budget]
    return words


def _converted_key(key: str, value: object) -> object:
    convert = _KEYS.get(key)
    if convert is None:
        raise UsageError(
            f"option `cache` of the ci-doctor plugin has no key `{key}`",
            hint=did_you_mean(key, _KEYS),
        )
    return convert(key, value)


def _cache_text(key: str, value: object) -> str:
    # A duration may be written as a number.
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise _wrong(key, value, "no text")
    return value


def _cache_texts(key: str, value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(_cache_text(key, item) for item in values)


def _cache_switch(key: str, value: object) -> bool:
    text = value if isinstance(value, str) else json.dumps(value)
    if text not in ("true", "false"):
        raise _wrong(key, value, "neither true nor false")
    return text == "true"


def _wrong(key: str, value: object, what: str) -> UsageError:
    name = f"cache: {key}" if key else "cache"
    return UsageError(f"option `{name}` of the ci-doctor plugin: {json.dumps(value)} is {what}")


_KEYS: Mapping[str, Callable[[str, object], object]] = {
    "store": _cache_text,
    "families": _cache_texts,
    "trust": _cache_text,
    "key": _cache_text,
    "allowed-signers": _cache_text,
    "budget": _cache_text,
    "strict": _cache_switch,
    "save": _cache_switch,
}


# --- the plugin's options, report directory, `setup-env` arguments ---

DEFAULT_REPORT_DIR = "ci-doctor-report"
REPORT_DIR_VARIABLE = "CI_DOCTOR_REPORT_DIR"
# For the hooks, if the other one says where the directory is in the command's container.
HOST_REPORT_DIR_VARIABLE = "CI_DOCTOR_HOST_REPORT_DIR"
_PREFIX = "BUILDKITE_PLUGIN_CI_DOCTOR_"
_PROFILES = ("off", "default", "strict")


class PluginOptions(Struct, frozen=True, kw_only=True):
    """The options of buildkite_plugins/ci-doctor/plugin.yml; None or empty if not set."""

    projects: tuple[str, ...] = ()
    determinism: str | None = None
    preload: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    venvs: tuple[str, ...] = ()
    setup_env: bool = True
    config: str | None = None
    allow_fallback: bool = False
    annotate: bool = True
    report_dir: str | None = None
    executable: str | None = None
    install: str | None = None
    install_dir: str | None = None
    diagnose: tuple[str, ...] = ()
    exit_codes: bool = False
    cache: CacheOption | None = None


def read_plugin_options(environ: Mapping[str, str]) -> PluginOptions:
    """The options that the agent passes to a hook of this plugin.

    From the JSON in BUILDKITE_PLUGIN_CONFIGURATION (agent >= 3.28.1), else from flat variables. The
    agent validates neither. Raises UsageError for unknown options, values of the wrong type, and
    a configuration that the agent dropped.
    """
    options, problem = options_and_problem(environ)
    if problem is not None:
        raise problem
    return options


def options_and_problem(environ: Mapping[str, str]) -> tuple[PluginOptions, UsageError | None]:
    """The options that can be read, and what is wrong with the others.

    The good ones count all the same: they say where the report of this very error goes.
    """
    problems: list[UsageError] = []
    values: dict[str, Any] = {}
    for name, value in _raw_options(environ, problems).items():
        try:
            values[name.replace("-", "_")] = _converted(name, value)
        except UsageError as error:
            problems.append(error)
    return PluginOptions(**values), _all_of(problems)


def _raw_options(environ: Mapping[str, str], problems: list[UsageError]) -> dict[str, object]:
    """The options as they were written; without any if they cannot be read."""
    text = environ.get("BUILDKITE_PLUGIN_CONFIGURATION")
    try:
        if text is not None:
            return _from_json(text)
        raw = _from_flat_variables(environ)
        if not raw:
            _refuse_dropped_configuration(environ)
    except UsageError as error:
        problems.append(error)
        return {}
    return raw


def _converted(name: str, value: object) -> object:
    convert = _OPTIONS.get(name)
    if convert is None:
        raise UsageError(
            f"the ci-doctor plugin has no option `{name}`", hint=did_you_mean(name, _OPTIONS)
        )
    return convert(name, value)


def _all_of(problems: Sequence[UsageError]) -> UsageError | None:
    """One error for all of them: a person mends the step once."""
    if not problems:
        return None
    messages = "; ".join(problem.message for problem in problems)
    hints = "; ".join(problem.hint for problem in problems if problem.hint)
    return UsageError(messages, hint=hints or None)


def setup_env_arguments(options: PluginOptions) -> list[str]:
    """The options as arguments of `ci-doctor setup-env`; without one the configuration counts."""
    arguments: list[str] = []
    if options.config is not None:
        arguments += ["--config", options.config]
    for project in options.projects:
        arguments += ["--project", project]
    for python in options.pythons:
        arguments += ["--python", python]
    for venv in options.venvs:
        arguments += ["--venv", venv]
    if options.determinism is not None:
        arguments += ["--determinism", options.determinism]
    for rule in options.preload:
        arguments += ["--preload", rule]
    if options.allow_fallback:
        arguments.append("--allow-fallback")
    return arguments


def named_logs(options: PluginOptions, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What the options `diagnose` of all ci-doctor plugins of the step name, each once.

    Agents differ in whose `post-command` hook runs first, and the status of the job must not.
    """
    names: list[str] = []
    for configuration in our_configurations(environ):
        values = configuration.get("diagnose") if isinstance(configuration, dict) else None
        try:
            names += _texts("diagnose", values) if values else ()
        except UsageError:
            # The hook of that very plugin says so.
            continue
    return tuple(dict.fromkeys([*names, *options.diagnose]))


def report_root(options: PluginOptions, environ: Mapping[str, str]) -> Path:
    """The absolute directory below which the commands of this job write their reports.

    The option `report-dir`, else CI_DOCTOR_REPORT_DIR, else `ci-doctor-report`, relative to the
    checkout. Below it is a folder with the job's id: reports that an earlier job left in the same
    checkout must not count as ours. Every hook of a job gets the same directory, even if an earlier
    one exported it. Raises UsageError outside a job.
    """
    job = JobEnvironment.from_environ(environ)
    if job is None:
        raise UsageError(
            "this is not a Buildkite job", hint="BUILDKITE=true and BUILDKITE_JOB_ID must be set"
        )
    exported = environ.get(HOST_REPORT_DIR_VARIABLE) or environ.get(REPORT_DIR_VARIABLE)
    root = Path(options.report_dir or exported or DEFAULT_REPORT_DIR)
    folder = _folder_name(job.job_id)
    if root.name != folder:
        root /= folder
    return Path(job.checkout or Path.cwd(), root)


def _folder_name(job_id: str) -> str:
    """`job_id`, a UUID, as it is. What is none leads to no other folder, and is no option."""
    return re.sub("[^A-Za-z0-9_]+", "-", job_id)[:100].strip("-") or "job"


def _texts(name: str, value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(_text(name, item) for item in values)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(
            f"option `{name}` of the ci-doctor plugin: {json.dumps(value)} is not a string"
        )
    if not value.strip():
        raise UsageError(
            f"option `{name}` of the ci-doctor plugin is empty",
            hint="leave it out, or give it a value",
        )
    return value


def _switch(name: str, value: object) -> bool:
    # Text in the flat variables, and if a pipeline interpolates a variable.
    text = value if isinstance(value, str) else json.dumps(value)
    if text not in ("true", "false"):
        raise UsageError(
            f"option `{name}` of the ci-doctor plugin: "
            f"{json.dumps(value)} is neither true nor false"
        )
    return text == "true"


def _profile(name: str, value: object) -> str:
    # A YAML 1.1 writer or reader reads a bare `off` as false.
    profile = "off" if value is False or value == "false" else _text(name, value)
    if profile not in _PROFILES:
        raise UsageError(
            f"option `{name}` of the ci-doctor plugin: "
            f"`{profile}` is none of {', '.join(_PROFILES)}"
        )
    return profile


_OPTIONS: Mapping[str, Callable[[str, object], object]] = {
    "projects": _texts,
    "determinism": _profile,
    "preload": _texts,
    "pythons": _texts,
    "venvs": _texts,
    "setup-env": _switch,
    "config": _text,
    "allow-fallback": _switch,
    "annotate": _switch,
    "report-dir": _text,
    "executable": _text,
    # Read by lib/install.bash as well, which runs before there is a ci-doctor.
    "install": _text,
    "install-dir": _text,
    "diagnose": _texts,
    "exit-codes": _switch,
    "cache": cache_option,
}


def _from_json(text: str) -> dict[str, object]:
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise UsageError(f"BUILDKITE_PLUGIN_CONFIGURATION is not JSON: {error}") from error
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise UsageError("the configuration of the ci-doctor plugin is not a mapping of options")
    return raw


def _from_flat_variables(environ: Mapping[str, str]) -> dict[str, object]:
    """Undo the agent's flattening: PREFIX_SETUP_ENV for a value, PREFIX_PROJECTS_0 for a list."""
    values: dict[str, object] = {}
    lists: dict[str, dict[int, str]] = {}
    for variable, value in environ.items():
        if not variable.startswith(_PREFIX):
            continue
        name = variable.removeprefix(_PREFIX).lower().replace("_", "-")
        item = re.fullmatch(r"(.+)-(\d+)", name)
        if item:
            lists.setdefault(item[1], {})[int(item[2])] = value
        else:
            values[name] = value
    for name, items in lists.items():
        values[name] = [items[index] for index in sorted(items)]
    return nested(values)


def _refuse_dropped_configuration(environ: Mapping[str, str]) -> None:
    """Raise UsageError if the step configures this plugin with a null.

    The agent then passes nothing at all.
    """
    for configuration in our_configurations(environ):
        # A plugin without any configuration is null itself, which is right.
        if configuration is not None and _holds_null(configuration):
            raise UsageError(
                "the configuration of the ci-doctor plugin holds an option without a value, "
                "and the agent dropped all of it",
                hint="give the option a value or remove its line from the pipeline",
            )


def _holds_null(configuration: object) -> bool:
    if configuration is None:
        return True
    if isinstance(configuration, dict):
        return any(_holds_null(value) for value in configuration.values())
    if isinstance(configuration, list):
        return any(_holds_null(value) for value in configuration)
    return False
