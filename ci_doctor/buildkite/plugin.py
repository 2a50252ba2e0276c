# SPDX-License-Identifier: Apache-2.0
"""Acts on files: the plugin's options and what they ask for; what its hooks have done in this job, for a plugin listed twice; a container's part."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.steps import TASK_VARIABLE
from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.model.words import did_you_mean
from ci_doctor.system.files.access import write_atomically

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


def is_our_plugin(location: str) -> bool:
    """Whether a plugin of a step is that of ci-doctor, by its source."""
    return _OURS.search(location) is not None


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


# --- the plugin's options ---

DEFAULT_REPORT_DIR = "ci-doctor-report"
REPORT_DIR_VARIABLE = "CI_DOCTOR_REPORT_DIR"
# For the hooks, if the other one says where the directory is in the command's container.
HOST_REPORT_DIR_VARIABLE = "CI_DOCTOR_HOST_REPORT_DIR"
_CACHE = "cache"
Text = Annotated[str, Meta(pattern=r"\S")]


class CacheOption(Struct, frozen=True, kw_only=True, rename="kebab"):
    """What is restored before the command, and saved after it; None or empty for what `[cache]` says.

    strict: whether a problem with the restore ends the job before its command. save: whether a command
    that succeeded saves its caches.
    """

    store: Text | None = None
    families: tuple[Text, ...] = ()
    trust: Text | None = None
    key: Text | None = None
    allowed_signers: Text | None = None
    budget: Text | None = None
    strict: bool = False
    save: bool = True


class PluginOptions(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The options of buildkite_plugins/ci-doctor/plugin.yml; None or empty if not set.

    install, install_dir: read by lib/install.bash as well, which runs before there is a ci-doctor.
    watch: read by the hook alone.
    """

    projects: tuple[Text, ...] = ()
    determinism: Literal["off", "default", "strict"] | None = None
    preload: tuple[Text, ...] = ()
    pythons: tuple[Text, ...] = ()
    venvs: tuple[Text, ...] = ()
    setup_env: bool = True
    config: Text | None = None
    allow_fallback: bool = False
    annotate: bool = True
    report_dir: Text | None = None
    executable: Text | None = None
    install: Text | None = None
    install_dir: Text | None = None
    diagnose: tuple[Text, ...] = ()
    exit_codes: bool = False
    watch: bool = False
    cache: CacheOption | None = None


def read_plugin_options(environ: Mapping[str, str]) -> PluginOptions:
    """The options that the agent passes to a hook of this plugin.

    From the JSON in BUILDKITE_PLUGIN_CONFIGURATION, which the agent (3.28.1 or later) does not validate. Raises UsageError for unknown options, values of the wrong type, and
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
    values = _decoded(PluginOptions, _raw_options(environ, problems), problems)
    return PluginOptions(**values), _all_of(problems)


def configuration_problem(configuration: object) -> UsageError | None:
    """What a job with this configuration of the plugin ends with before its command."""
    location = "./ci-doctor"
    environ = {"BUILDKITE_PLUGINS": json.dumps([{location: configuration}])}
    if not _holds_null(configuration):
        environ["BUILDKITE_PLUGIN_CONFIGURATION"] = json.dumps(configuration)
    return options_and_problem(environ)[1]


def cache_option(value: object, problems: list[UsageError]) -> CacheOption | None:
    """The option `cache` as the agent hands it over; None for false. `true` takes all from `[cache]`."""
    # By identity: 0 equals False.
    if value is False or value == "false":
        return None
    if value is True or value == "true":
        return CacheOption()
    if isinstance(value, dict):
        wrong: list[UsageError] = []
        decoded = _decoded(CacheOption, value, wrong, within=f"{_CACHE}: ")
        problems += wrong
        # A mistyped `trust` or `save` must not let a later hook save by the defaults.
        return None if wrong else CacheOption(**decoded)
    problems.append(_wrong(_CACHE, value, "neither true, false nor a mapping"))
    return None


def _decoded(
    kind: type[Struct],
    values: Mapping[str, object],
    problems: list[UsageError],
    *,
    within: str = "",
) -> dict[str, Any]:
    """The values that fit the fields of `kind`, by field; what is wrong with the others is a problem."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    decoded: dict[str, Any] = {}
    for name, value in values.items():
        field = fields.get(name)
        if field is None:
            message = f"the ci-doctor plugin has no option `{within}{name}`"
            problems.append(UsageError(message, hint=did_you_mean(name, fields)))
        elif name == _CACHE:
            decoded[name] = cache_option(value, problems)
        else:
            try:
                decoded[field.name] = msgspec.convert(
                    _plain(name, value, field.type), decodable(field.type)
                )
            except msgspec.ValidationError:
                problems.append(_wrong(within + name, value, _NO.get(field.type, "no text")))
    return decoded


_NO: Mapping[object, str] = {
    bool: "neither true nor false",
    tuple[Text, ...]: "neither a text nor a list of texts",
    Literal["off", "default", "strict"] | None: "none of off, default, strict",
}


def _plain(name: str, value: object, kind: object) -> object:
    """An option as its type wants it: one value for a list, text where a pipeline interpolates a variable."""
    if kind is bool and value in ("true", "false"):
        return value == "true"
    if kind == tuple[Text, ...]:
        return value if isinstance(value, list) else [value]
    # A YAML 1.1 writer or reader reads a bare `off` as false.
    if name == "determinism" and (value is False or value == "false"):
        return "off"
    # A duration may be written as a number.
    if name == "budget" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    # The agent passes no null, and drops a configuration that holds one.
    return () if value is None else value


def _wrong(name: str, value: object, what: str) -> UsageError:
    option = f"option `{name}` of the ci-doctor plugin"
    # An interpolated variable that is not set is an empty text.
    texts = value if isinstance(value, list) else [value]
    if any(isinstance(text, str) and not text.strip() for text in texts):
        return UsageError(f"{option} is empty", hint="leave it out, or give it a value")
    return UsageError(f"{option}: {json.dumps(value, ensure_ascii=False)} is {what}")


def _raw_options(environ: Mapping[str, str], problems: list[UsageError]) -> dict[str, object]:
    """The options as they were written; none of them if they cannot be read."""
    text = environ.get("BUILDKITE_PLUGIN_CONFIGURATION")
    if text is None:
        # For a null in a configuration the agent passes nothing at all. A plugin without any is null itself, which is right.
        if any(each is not None and _holds_null(each) for each in our_configurations(environ)):
            message = (
                "the configuration of the ci-doctor plugin holds an option without a value, "
                "and the agent dropped all of it"
            )
            hint = "give the option a value or remove its line from the pipeline"
            problems.append(UsageError(message, hint=hint))
        return {}
    try:
        raw = json.loads(text)
    except ValueError as error:
        problems.append(UsageError(f"BUILDKITE_PLUGIN_CONFIGURATION is not JSON: {error}"))
        return {}
    if raw is not None and not isinstance(raw, dict):
        message = "the configuration of the ci-doctor plugin is not a mapping of options"
        problems.append(UsageError(message))
    return raw if isinstance(raw, dict) else {}


def _holds_null(configuration: object) -> bool:
    if isinstance(configuration, dict):
        return any(map(_holds_null, configuration.values()))
    if isinstance(configuration, list):
        return any(map(_holds_null, configuration))
    return configuration is None


def _all_of(problems: Sequence[UsageError]) -> UsageError | None:
    """One error for all of them: a person mends the step once."""
    if not problems:
        return None
    messages = "; ".join(problem.message for problem in problems)
    hints = "; ".join(problem.hint for problem in problems if problem.hint)
    return UsageError(messages, hint=hints or None)


def setup_env_arguments(options: PluginOptions) -> list[str]:
    """The options as arguments of `ci-doctor setup-env`; without one the configuration counts."""
    repeated = {
        "--config": (options.config,),
        "--project": options.projects,
        "--python": options.pythons,
        "--venv": options.venvs,
        "--determinism": (options.determinism,),
        "--preload": options.preload,
    }
    arguments = [
        word
        for flag, values in repeated.items()
        for value in values
        if value is not None
        for word in (flag, value)
    ]
    return [*arguments, "--allow-fallback"] if options.allow_fallback else arguments


def named_logs(options: PluginOptions, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What the options `diagnose` of all ci-doctor plugins of the step name, each once.

    Agents differ in whose `post-command` hook runs first, and the status of the job must not.
    """
    names: list[str] = []
    for configuration in our_configurations(environ):
        values = configuration.get("diagnose") if isinstance(configuration, dict) else None
        # What is wrong with it, the hook of that very plugin says.
        names += _decoded(PluginOptions, {"diagnose": values} if values else {}, []).get(
            "diagnose", ()
        )
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
    # `job_id`, a UUID, as it is. What is none leads to no other folder, and is no option.
    folder = re.sub("[^A-Za-z0-9_]+", "-", job.job_id)[:100].strip("-") or "job"
    if root.name != folder:
        root /= folder
    return Path(job.checkout or Path.cwd(), root)


# --- what the plugin's hooks have done in this job, for a plugin that is listed twice ---


_PUBLISHED = ".published.json"
_BEGAN = ".began.json"
_COMMAND = ".command.json"


class HookStep(StrEnum):
    """What a plugin does once for each set of its options; the value is the name of the record."""

    PREPARED = ".prepared.json"
    DIAGNOSED = ".diagnosed.json"
    CACHED = ".caches.json"


def keep_done(root: Path, step: HookStep, words: Sequence[str]) -> None:
    """Keep that `step` was done with `words`, which stand for the options."""
    _keep(root / step, [*done_with(root, step), list(words)])


def done_with(root: Path, step: HookStep) -> list[object]:
    """The words with which `step` was done in this job; empty if it was not, or nobody knows."""
    kept = _kept(root / step)
    return kept if isinstance(kept, list) else []


def keep_began(root: Path, at: str) -> None:
    """Keep when the job's first hook began, RFC 3339; a later hook's time changes nothing."""
    if began_at(root) is None:
        _keep(root / _BEGAN, at)


def began_at(root: Path) -> str | None:
    """When the job's first hook began, RFC 3339.

    None if nobody kept it: the hooks may run in several containers, or the disk is full.
    """
    kept = _kept(root / _BEGAN)
    return kept if isinstance(kept, str) else None


def keep_command_status(root: Path, status: int) -> None:
    """Keep how the command ended, before a hook of ours changes it; the first one counts."""
    if command_status(root) is None:
        _keep(root / _COMMAND, status)


def command_status(root: Path) -> int | None:
    """How the command ended; None if no hook has kept it."""
    kept = _kept(root / _COMMAND)
    return kept if isinstance(kept, int) else None


def keep_published(root: Path, directories: Sequence[Path], *, annotated: bool) -> None:
    """Keep that the reports in `directories` are published as they are."""
    _keep(root / _PUBLISHED, {"annotated": annotated, "reports": _digests(directories)})


def was_published(root: Path, directories: Sequence[Path], *, annotated: bool) -> bool:
    """Whether these very reports are published, with annotations if those are wanted."""
    kept = _kept(root / _PUBLISHED)
    if not isinstance(kept, dict) or kept.get("reports") != _digests(directories):
        return False
    return bool(kept.get("annotated")) or not annotated


def _digests(directories: Sequence[Path]) -> dict[str, str]:
    reports = {each: (each / "report.json").read_bytes() for each in directories}
    return {str(each): hashlib.sha256(content).hexdigest() for each, content in reports.items()}


def _keep(path: Path, content: object) -> None:
    # Without a record the work is done twice, which is better than a job that fails.
    try:
        write_atomically(path, json.dumps(content).encode())
    except UsageError:
        return


def _kept(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


# --- the container that another plugin runs a step's command in: what of ours reaches it ---
# By the documented options of the plugins docker and docker-compose
# (https://github.com/buildkite-plugins/docker-buildkite-plugin, v5.13.0, and
# https://github.com/buildkite-plugins/docker-compose-buildkite-plugin, v5.14.0). In a pod of
# agent-stack-k8s the hooks pre-command and post-command run in the command's own container, so there
# is nothing to do (https://buildkite.com/docs/agent/v3/self-hosted/agent-stack-k8s, "Hook execution
# differences").


# Holds the names of what the container needs; "If you set this to VALUE, and VALUE is an
# environment variable containing a space-separated list of environment variables …" (both READMEs).
NAMES_VARIABLE = "CI_DOCTOR_VARIABLES"
_LIST_OPTION = "env-propagation-list"
# What a ci-doctor in the container puts into its reports of the job, and the steps that it uploads are made of; of
# these, those that are set.
_JOB_VARIABLES = (
    "CI",
    "BUILDKITE",
    "BUILDKITE_JOB_ID",
    "BUILDKITE_BUILD_ID",
    "BUILDKITE_BUILD_NUMBER",
    "BUILDKITE_BUILD_URL",
    "BUILDKITE_STEP_ID",
    "BUILDKITE_STEP_KEY",
    "BUILDKITE_LABEL",
    "BUILDKITE_COMMAND",
    "BUILDKITE_RETRY_COUNT",
    "BUILDKITE_PARALLEL_JOB",
    "BUILDKITE_PARALLEL_JOB_COUNT",
    "BUILDKITE_TIMEOUT",
    "BUILDKITE_BRANCH",
    "BUILDKITE_COMMIT",
    "BUILDKITE_AGENT_META_DATA_QUEUE",
    "BUILDKITE_ARTIFACT_PATHS",
    "BUILDKITE_PLUGINS",
    TASK_VARIABLE,
)
# Where both plugins mount the checkout without the option `workdir`.
_WORKDIR = "/workdir"


class Container(Struct, frozen=True, kw_only=True):
    """A container that a plugin starts for the command.

    `mounts` are the directories of the host and where they lie in the container, absolute both.
    `passed` are the names of the variables that it gets, and `listed` the variable whose words are
    such names, too; pipeline variables (`propagate-environment`) do not count, because ours are not
    among them.
    """

    plugin: str
    mounts: tuple[tuple[Path, PurePosixPath], ...]
    passed: frozenset[str]
    listed: str | None = None

    def inside(self, path: Path) -> PurePosixPath | None:
        """Where `path` of the host lies in the container; None if it is not there."""
        fitting = [mount for mount in self.mounts if path.is_relative_to(mount[0])]
        if not fitting:
            return None
        source, target = max(fitting, key=lambda mount: len(mount[0].parts))
        return target / path.relative_to(source)

    def lacks(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that the container does not get."""
        if self.listed == NAMES_VARIABLE:
            return []
        return [name for name in names if name not in self.passed]


def names_to_pass(exported: Sequence[str], environ: Mapping[str, str]) -> str:
    """The value of NAMES_VARIABLE: `exported`, and the variables of the job that are set."""
    job = [name for name in _JOB_VARIABLES if name in environ]
    return " ".join(dict.fromkeys([*exported, *job]))


def container_of(environ: Mapping[str, str], directory: Path) -> Container | None:
    """The container of the step's command; None if it runs beside the hooks.

    `directory` is where the hooks run, which is what these plugins mount.
    """
    for options in configurations_of("docker", environ):
        return _container("docker", options, directory, _docker_checkout(options))
    for options in configurations_of("docker-compose", environ):
        if options.get("run"):
            return _container("docker-compose", options, directory, _compose_checkout(options))
    return None


def report_directory_inside(container: Container, root: Path) -> str:
    """What CI_DOCTOR_REPORT_DIR is to be in the container.

    If `root` is not mounted, a path below the working directory: a compose file may mount the
    checkout there without the plugin knowing.
    """
    inside = container.inside(root)
    return str(inside) if inside else "/".join(root.parts[-2:])


def what_is_missing(container: Container, root: Path, names: Sequence[str]) -> str | None:
    """One sentence about what cannot reach the container, with the settings that make it work."""
    parts = [part for part in (_variables(container, names), _reports(container, root)) if part]
    if not parts:
        return None
    return f"ci-doctor: the command runs in a container of the {container.plugin} plugin; " + (
        "; ".join(parts)
    )


def _variables(container: Container, names: Sequence[str]) -> str | None:
    lacking = container.lacks(names)
    if not lacking:
        return None
    if container.listed is not None:
        return (
            f"it does not get {' '.join(lacking)}: add the words of ${NAMES_VARIABLE} to the "
            f"variable {container.listed}, which `{_LIST_OPTION}` names"
        )
    what = "none" if len(lacking) == len(names) else "only some"
    return (
        f"it gets {what} of the variables that ci-doctor exports: "
        f"give that plugin `{_LIST_OPTION}: {NAMES_VARIABLE}`"
    )


def _reports(container: Container, root: Path) -> str | None:
    if container.inside(root) is not None:
        return None
    if container.plugin == "docker-compose":
        return (
            "its reports are lost, unless the compose file mounts the checkout as the working "
            "directory: give that plugin `mount-checkout: true`"
        )
    if not container.mounts:
        return "its reports are lost: give that plugin `mount-checkout: true`"
    return (
        f"its reports are lost, because {root} is not mounted: name a directory of the checkout by "
        "`report-dir`, or mount that one by the docker plugin's `volumes`"
    )


def _container(
    plugin: str, options: Mapping[str, object], directory: Path, checkout: str | None
) -> Container:
    mounts = list(_volumes(options.get("volumes"), directory))
    if checkout is not None:
        mounts.append((directory, PurePosixPath(checkout)))
    listed = options.get(_LIST_OPTION)
    variables = [*_names(options.get("environment")), *_names(options.get("env"))]
    return Container(
        plugin=plugin,
        mounts=tuple(mounts),
        passed=frozenset(variables),
        listed=listed if isinstance(listed, str) else None,
    )


def _docker_checkout(options: Mapping[str, object]) -> str | None:
    """Where the docker plugin mounts the checkout, which it does unless it is told otherwise."""
    value = options.get("mount-checkout", True)
    if not (value is True or str(value) in ("true", "on", "1")):
        return None
    return str(options.get("workdir") or _WORKDIR)


def _compose_checkout(options: Mapping[str, object]) -> str | None:
    mount = options.get("mount-checkout", False)
    if isinstance(mount, str) and mount.startswith("/"):
        return mount
    if mount in (True, "true"):
        return str(options.get("workdir") or _WORKDIR)
    return None


def _volumes(value: object, directory: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    """`SOURCE:TARGET[:OPTIONS]`; `.` and `./` at the beginning stand for the working directory."""
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, str):
            continue
        source, _, rest = item.partition(":")
        target = rest.partition(":")[0]
        if not target.startswith("/"):
            continue
        if source.startswith("/"):
            yield Path(source), PurePosixPath(target)
        elif re.match(r"\.(/|$)", source):
            yield directory / source, PurePosixPath(target)


def _names(value: object) -> Iterator[str]:
    """The variables of `environment`: `KEY` or `KEY=VALUE`, in a list, alone, or as a mapping."""
    if isinstance(value, dict):
        yield from (str(name) for name in value)
        return
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item.partition("=")[0]
