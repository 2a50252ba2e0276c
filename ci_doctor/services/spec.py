# SPDX-License-Identifier: Apache-2.0
"""Pure. What a service is as written: its command, its ports, in which order a group is started; a command that cannot run so."""

import functools
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import tomli
from msgspec import Meta, Struct

from ci_doctor.config.decoding import convert
from ci_doctor.config.loading import Config
from ci_doctor.errors import UsageError
from ci_doctor.model.words import did_you_mean, parse_duration, parse_size
from ci_doctor.services.ready import (
    NoProbeError,
    ReadinessProbe,
    ReadySpec,
    Scheme,
    addresses,
    parse_ready,
)

Duration = str | int | float
# Of a budget, the most that is kept for stopping everything and writing the report: to stop a group
# takes 8 s at most (services/running.py).
LONGEST_RESERVE_S = 12.0


def reserve_of(budget_s: float) -> float:
    """The seconds of a budget that are kept for the stop and the report; a short one spares less."""
    return min(LONGEST_RESERVE_S, 0.5 + 0.25 * budget_s)


class ServiceSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[services.NAME]` table.

    Durations are seconds or text for parse_duration, sizes bytes or text for parse_size. `command`
    and `stop_command` are split as a shell would split words, and no shell runs them. `cwd` is
    relative to LaunchContext.directory. `ready` is a probe (docs/probes.md). `needs` names services
    that must be ready before. `ports` are names of further ports that it listens on. `liveness` is a
    probe of a service that is ready: one that fails `liveness_failures` times in a row, each
    `liveness_period`, while nothing shows progress, is a death.

    `descendants` tells which end of a process below the service is a death of the service: one by a
    `signal`, any `exit`, or none (`ignore`). A log line that matches `fatal` is one too, unless the
    process ends within `fatal_grace`. `pidfile` names the process to watch of a service that goes
    into the background. `stop_command` is run before the tree is stopped (`docker stop`).
    `released` are conditions awaited after that, for at most `release_timeout`. `leaks` tells what is
    made of what it leaves behind: `report` warns, `strict` fails. `leaks_allowed` are patterns of
    names (fnmatch) that it may leave.

    In `command`, `stop_command`, `pidfile`, `env` values and `ready`, `{port}` becomes a port
    reserved for this service, `{NAME.port}` that of another service of the group, `{NAME.MORE.port}`
    the further port MORE of service NAME, and each further placeholder of the launch (`{arm}`,
    `{start}`) its value. Only these exact words are replaced, so JSON in an argument stays as it is, and so does
    `{{port}}`.
    """

    command: str | list[str]
    env: dict[str, str] = {}
    cwd: str | None = None
    ready: str | ReadySpec = "/health"
    start_timeout: Duration = "600s"
    liveness: str | ReadySpec | None = None
    liveness_period: Duration = "10s"
    liveness_failures: Annotated[int, Meta(ge=1)] = 3
    needs: list[str] = []
    ports: list[str] = []
    descendants: Literal["signal", "exit", "ignore"] = "signal"
    fatal: str | None = None
    fatal_grace: Duration = "500ms"
    pidfile: str | None = None
    log_limit: str | int = "64MiB"
    stop_command: str | list[str] | None = None
    released: list[Literal["port", "gpu-memory"]] = []
    release_timeout: Duration = "60s"
    leaks: Literal["report", "strict", "off"] = "report"
    leaks_allowed: list[str] = []

    def words(self) -> list[str]:
        """The command's words, placeholders still in them.

        Raises ValueError on an unclosed quotation.
        """
        return _split(self.command)

    def stop_words(self) -> list[str]:
        """Those of `stop_command`, if there is one. Raises as `words`."""
        return _split(self.stop_command or [])

    def start_timeout_s(self) -> float:
        """Seconds that the service has to become ready. Raises ValueError if there are none."""
        seconds = parse_duration(self.start_timeout)
        if seconds <= 0:
            raise ValueError(
                f"start_timeout is {self.start_timeout!r}, which leaves no time to start"
            )
        return seconds

    def log_limit_bytes(self) -> int:
        """Bytes that its log may hold. Raises ValueError."""
        return parse_size(self.log_limit)

    def takes_port(self, placeholder: str = "{port}") -> bool:
        """Whether the service gets its port by its command or environment.

        `placeholder` is the port's, or its end: `.http.port}` for `{kv.http.port}`.
        """
        texts = list(self.env.values())
        if isinstance(self.command, str):
            texts.append(self.command)
        else:
            texts.extend(self.command)
        return any(placeholder in text for text in texts)

    def probed_port(self) -> str | None:
        """The end of the placeholder by which `ready` names a port reserved for this service.

        None for a fixed port, and for a probe without a network. Raises ValueError as `read_ready`.
        """
        return next(filter(None, map(self._own_port, addresses(self.ready))), None)

    def has_fixed_port(self) -> bool:
        """Whether `ready` names another port than those reserved for this service, and first."""
        first = next(addresses(self.ready), None)
        return first is not None and self._own_port(first) is None

    def _own_port(self, address: str) -> str | None:
        for further in self.ports:
            if f".{further}.port}}" in address:
                return f".{further}.port}}"
        if address.startswith("/") or "{port}" in address:
            return "{port}"
        return None


def _split(command: str | list[str]) -> list[str]:
    if isinstance(command, str):
        return shlex.split(command)
    return list(command)


class LaunchContext(Struct, frozen=True, kw_only=True):
    """Where and with what a group is launched.

    `environment` is the whole environment of the services (their `env` goes on top), `directory`
    the base of relative `cwd`, `log_directory` the place of `NAME-1.log`, `NAME-2.log` …, one more
    with each start. `placeholders` are further words to replace, without braces. `limit_s` caps the
    seconds until the whole group is ready, whatever the services' own `start_timeout` allow.
    `grace_s` is what a group has to end that failed or was given up before it was ready.
    """

    environment: Mapping[str, str]
    directory: Path
    log_directory: Path
    placeholders: Mapping[str, str] = {}
    limit_s: float | None = None
    grace_s: float = 5.0


class Liveness(Struct, frozen=True, kw_only=True):
    """How to see whether a service still lives: `failures` in a row of `probe`, one each `period_s`."""

    probe: ReadinessProbe
    period_s: float
    failures: int


class FilledSpec(Struct, frozen=True, kw_only=True):
    """A service with every placeholder replaced.

    `env` is the whole environment, `port` where it is reached.
    """

    words: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    probe: ReadinessProbe
    port: int
    pidfile: Path | None = None
    stop_words: tuple[str, ...] = ()
    liveness: Liveness | None = None

    def probes(self) -> dict[str, ReadinessProbe]:
        """By the key in which they were written."""
        if self.liveness is None:
            return {"ready": self.probe}
        return {"ready": self.probe, "liveness": self.liveness.probe}


# `${port}`, `%{http_code}` and `{{server.port}}` are other programs' own.
_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}|(?<![$%\\])\{([A-Za-z0-9_][\w.-]*)\}", re.ASCII)


def placeholders_in(text: str) -> Iterator[re.Match[str]]:
    """What may be a placeholder of ours in `text`; group 1 is its name."""
    return (match for match in _PLACEHOLDER.finditer(text) if match[1])


def fill(text: str, placeholders: Mapping[str, str]) -> str:
    """`text` with `{name}` replaced for each placeholder; other braces stay, also `{{name}}`."""
    return _PLACEHOLDER.sub(lambda match: placeholders.get(match[1], match[0]), text)


_OF_A_PROGRAM = re.compile(r"[\s()'\";]")


def check_placeholders(subject: str, texts: Iterable[str], known: Collection[str]) -> None:
    """Raises UsageError if a text holds the port of an unknown service, or what is near a placeholder in `known`.

    Other braces stay as they are, and so does a text that may be a program.
    """
    for text in texts:
        for match in placeholders_in("" if _OF_A_PROGRAM.search(text) else text):
            # A bare `{port}` may be the client's own template; one in an address would not work.
            end = f".{match[1]}" if text[: match.start()].endswith(":") else "\0"
            near = [name for name in known if _is_slip(match[1], name) or name.endswith(end)]
            if match[1] in known or not (near or match[1].endswith(".port")):
                continue
            names = " or ".join(f"`{{{name}}}`" for name in near)
            every = ", ".join(f"`{{{name}}}`" for name in sorted(known))
            raise UsageError(
                f"{subject}: unknown placeholder {match[0]}",
                hint=f"did you mean {names}?" if near else f"known: {every}",
            )


def _is_slip(word: str, name: str) -> bool:
    """Whether `word` has the letters of `name`, but for one that is missing or too much."""
    # Not a letter for another: `{sort}` and `{post}` are words of other programs.
    one, other = (Counter(re.sub(r"[_-]", ".", text.lower())) for text in (word, name))
    return (one - other).total() + (other - one).total() <= 1


def fill_spec(
    spec: ServiceSpec, context: LaunchContext, ports: Mapping[str, int], name: str
) -> FilledSpec:
    """The service `name` made ready to start; `ports` holds the reserved port of each service.

    Raises ValueError as `words` and `parse_ready` do.
    """
    placeholders = placeholders_for(name, context, ports)

    def filled(text: str) -> str:
        return fill(text, placeholders)

    cwd = context.directory / filled(spec.cwd or "")
    probe = parse_ready(spec.ready, ports[name], directory=cwd, fill=filled)
    environment = dict(context.environment)
    for key, value in spec.env.items():
        environment[key] = filled(value)
    # A probe with a fixed port names where the service really listens.
    port = probe.port if probe.is_network else ports[name]
    pidfile = cwd / filled(spec.pidfile) if spec.pidfile else None
    return FilledSpec(
        words=tuple(map(filled, spec.words())),
        env=environment,
        cwd=cwd,
        probe=probe,
        port=port,
        pidfile=pidfile,
        stop_words=tuple(map(filled, spec.stop_words())),
        liveness=_liveness(spec, ports[name], cwd, filled),
    )


def _liveness(
    spec: ServiceSpec, port: int, directory: Path, filled: Callable[[str], str]
) -> Liveness | None:
    if spec.liveness is None:
        return None
    try:
        probe = parse_ready(spec.liveness, port, directory=directory, fill=filled)
        period_s = parse_duration(spec.liveness_period)
    except NoProbeError as error:
        raise NoProbeError(error.text, error.why, "liveness") from error
    except ValueError as error:
        raise ValueError(f"liveness: {error}") from error
    if probe.ready_for_s or any(part.scheme is Scheme.LOG for part in probe.leaves()):
        raise ValueError("liveness: a log that has matched, and `ready_for`, are about readiness")
    if period_s <= 0:
        raise ValueError(f"liveness_period is {spec.liveness_period!r}, and must be more than 0")
    return Liveness(probe=probe, period_s=period_s, failures=spec.liveness_failures)


def placeholders_for(name: str, context: LaunchContext, ports: Mapping[str, int]) -> dict[str, str]:
    """Every placeholder of the service `name`, without braces."""
    placeholders = dict(context.placeholders)
    for other, port in ports.items():
        placeholders[f"{other}.port"] = str(port)
    # Last, so that no placeholder of the launch takes its place.
    placeholders["port"] = str(ports[name])
    return placeholders


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)


def port_names(specs: Mapping[str, ServiceSpec], order: Sequence[str]) -> tuple[str, ...]:
    """What stands before `.port` in the placeholders of the services in `order`.

    `kv` is the service's own port, `kv.http` its further port `http`. Raises UsageError if a name
    cannot stand in a placeholder, or stands for two ports.
    """
    names = list(order)
    for service in order:
        for further in specs[service].ports:
            if not _NAME.fullmatch(further):
                raise UsageError(
                    f'service "{service}": "{further}" cannot name a port',
                    hint='use letters, digits, underscores and hyphens: ports = ["http"]',
                )
            names.append(f"{service}.{further}")
    for name, times in Counter(names).items():
        if times > 1:
            raise UsageError(
                f"the placeholder {{{name}.port}} stands for {times} ports",
                hint="rename one of them, in `ports` or the service itself",
            )
    return tuple(names)


def start_order(specs: Mapping[str, ServiceSpec], names: Sequence[str]) -> tuple[str, ...]:
    """`names` with everything that they need, each once, and after what it needs.

    Raises UsageError if no name is given, a name is unknown, or services need each other in a
    cycle.
    """
    if not names:
        hint = "describe one in ci-doctor.toml, as [services.NAME]"
        if specs:
            hint = f"name one of: {', '.join(specs)}"
        raise UsageError("no service is named", hint=hint)
    order: list[str] = []
    for name in names:
        _visit(name, (), specs, order)
    return tuple(order)


def _visit(
    name: str, path: tuple[str, ...], specs: Mapping[str, ServiceSpec], order: list[str]
) -> None:
    """Append what `name` needs, then `name`; `path` leads from a name that was given to it."""
    if name in path:
        cycle = " -> ".join((*path[path.index(name) :], name))
        raise UsageError(
            f"services need each other in a circle: {cycle}", hint="remove one of these needs"
        )
    if name not in specs:
        subject = f'service "{name}"'
        if path:  # only what needs it can be mended
            subject = f'service "{path[-1]}" needs "{name}", which'
        raise UsageError(f"{subject} is not defined", hint=did_you_mean(name, specs))
    for needed in specs[name].needs:
        _visit(needed, (*path, name), specs, order)
    if name not in order:
        order.append(name)


def service_specs(loaded: Config) -> dict[str, ServiceSpec]:
    """Every `[services.NAME]`, in the order of the file. Raises ConfigError with file and line."""
    specs = {}
    for name, table in loaded.tables.get("services", {}).items():
        where = functools.partial(_where, loaded, name)
        specs[name] = convert(table, ServiceSpec, where)
    return specs


def _where(loaded: Config, name: str, keys: Sequence[str | int]) -> str:
    return loaded.where("services", name, *keys)


def relative(path: str, directory: Path) -> str:
    """A path inside `directory` relative to it; any other path as it is."""
    inner = Path(path)
    if not inner.is_relative_to(directory):
        return path
    return str(inner.relative_to(directory))


# --- whether a process ended because its command cannot run as it was written ---


# What a process ends with whose command cannot run; see `is_sudden`.
SUDDEN_CODES = frozenset({2, 126, 127})
# A process that ends so soon has not begun to serve.
_SUDDEN_S = 1.0


class Misuse(Struct, frozen=True, kw_only=True):
    """What is wrong with a command.

    `line` is the log line that says what is wrong with a command, `about` its part that names
    the file, module or option.
    """

    line: str
    about: str


class _Sign(Struct, frozen=True):
    """A log line that tells of a command that cannot run, with the exit codes it comes with."""

    codes: frozenset[int]
    pattern: re.Pattern[str]


@functools.cache
def _signs() -> tuple[_Sign, ...]:
    """The table beside this module; read at the first end of a service that never was ready."""
    text = Path(__file__).with_name("misuse.toml").read_text(encoding="utf-8")
    rows = tomli.loads(text)["sign"]
    return tuple(_Sign(frozenset(row["codes"]), re.compile(row["regex"])) for row in rows)


def misuse_of(exit_code: int | None, lines: Sequence[str]) -> Misuse | None:
    """What the last `lines` of a log say is wrong with the command; None if they do not say so."""
    # The last line first: what comes before it may be a warning of something that went on.
    for line in reversed(lines):
        for sign in _signs():
            match = sign.pattern.search(line.rstrip()) if exit_code in sign.codes else None
            if match:
                return Misuse(line=line.strip(), about=match["about"])
    return None


def is_sudden(exit_code: int | None, duration_s: float) -> bool:
    """Whether a process ended as one does whose command cannot run, though its log does not say so.

    One such end may have another reason; if every start ends like that, the command is wrong.
    """
    return exit_code in SUDDEN_CODES and duration_s <= _SUDDEN_S


def blamed_words(about: str, words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command that `about` names: a file by its name, an option by it or its value.

    The program itself is left out: it ran.
    """
    blamed = []
    for word in words[1:]:
        option, _, value = word.partition("=")
        names = [option, value] if word.startswith("-") else [file_name(word)]
        if any(_is_named(name, about) for name in names):
            blamed.append(word)
    return tuple(blamed)


def file_name(word: str) -> str:
    """The last part of a path."""
    return word.rpartition("/")[2]


def _is_named(name: str, about: str) -> bool:
    return bool(name and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", about))
