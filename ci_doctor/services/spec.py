# SPDX-License-Identifier: Apache-2.0
"""What a service is: its command, environment, readiness probe, and what it needs. Pure."""

import shlex
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from ci_doctor.model.duration import parse_duration


class ServiceSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[services.NAME]` table.

    `command` is split as a shell would split words, and no shell runs it. `cwd` is relative to LaunchContext.directory.
    `ready` is a bare path ("/health", asked on 127.0.0.1:{port}), "http://host:port/path" or "tcp://host:port".
    `start_timeout` is seconds or text for parse_duration. `needs` names services that must be ready before.

    In `command`, `env` values and `ready`, `{port}` becomes a port reserved for this service, `{NAME.port}` that of
    another service of the group, and each further placeholder of the launch (`{arm}`, `{start}`) its value. Only
    these exact words are replaced, so JSON in an argument stays as it is.
    """

    command: str | list[str]
    env: dict[str, str] = {}
    cwd: str | None = None
    ready: str = "/health"
    start_timeout: str | int | float = "600s"
    needs: list[str] = []

    def words(self) -> list[str]:
        """The command's words, placeholders still in them. Raises ValueError on an unclosed quotation."""
        return shlex.split(self.command) if isinstance(self.command, str) else list(self.command)

    def start_timeout_s(self) -> float:
        """Seconds that the service has to become ready. Raises ValueError where there are none."""
        seconds = parse_duration(self.start_timeout)
        if seconds <= 0:
            raise ValueError(f"start_timeout is {self.start_timeout!r}, which leaves no time to start")
        return seconds

    def asks_for_port(self) -> bool:
        """Whether the service is told its port by its command or environment."""
        texts = [self.command] if isinstance(self.command, str) else self.command
        return any("{port}" in text for text in (*texts, *self.env.values()))

    def has_fixed_port(self) -> bool:
        """Whether `ready` names a port of its own, or another service's, and not the one reserved for this service."""
        return not self.ready.startswith("/") and "{port}" not in self.ready


class LaunchContext(Struct, frozen=True, kw_only=True):
    """Where and with what a group is launched.

    `environment` is the whole environment of the services (their `env` goes on top), `directory` the base of relative
    `cwd`, `log_directory` where `NAME-1.log`, `NAME-2.log` … are made, one more with each start. `placeholders` are
    further words to replace, without braces. `limit_s` caps the seconds until the whole group is ready, whatever the
    services' own `start_timeout` allow.
    """

    environment: Mapping[str, str]
    directory: Path
    log_directory: Path
    placeholders: Mapping[str, str] = {}
    limit_s: float | None = None


class Scheme(StrEnum):
    """How a service is asked whether it is ready."""

    HTTP = "http"
    TCP = "tcp"


class Target(Struct, frozen=True, kw_only=True):
    """Where a service is asked whether it is ready; `path` keeps its query and is empty for TCP."""

    scheme: Scheme
    host: str
    port: int
    path: str = ""


class FilledSpec(Struct, frozen=True, kw_only=True):
    """A service with every placeholder replaced; `env` is the whole environment."""

    words: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    target: Target


def fill(text: str, placeholders: Mapping[str, str]) -> str:
    """`text` with `{name}` replaced for each placeholder; other braces stay."""
    for name, value in placeholders.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def fill_spec(spec: ServiceSpec, context: LaunchContext, ports: Mapping[str, int], name: str) -> FilledSpec:
    """The service `name` made ready to start; `ports` holds the reserved port of each service of the group.

    Raises ValueError as `words` and `parse_ready` do.
    """
    placeholders = placeholders_for(name, context, ports)
    return FilledSpec(
        words=tuple(fill(word, placeholders) for word in spec.words()),
        env={**context.environment, **{key: fill(value, placeholders) for key, value in spec.env.items()}},
        cwd=context.directory / fill(spec.cwd or "", placeholders),
        target=parse_ready(fill(spec.ready, placeholders), ports[name]),
    )


def placeholders_for(name: str, context: LaunchContext, ports: Mapping[str, int]) -> dict[str, str]:
    """Every placeholder of the service `name`, without braces."""
    others = {f"{other}.port": str(port) for other, port in ports.items()}
    return {**context.placeholders, **others, "port": str(ports[name])}


def parse_ready(text: str, port: int) -> Target:
    """The target that a filled `ready` names; a bare path is asked on 127.0.0.1:`port`.

    Raises ValueError with a sentence for the user.
    """
    if text.startswith("/"):
        return Target(scheme=Scheme.HTTP, host="127.0.0.1", port=port, path=text)
    address = urlsplit(text)
    if address.scheme not in set(Scheme) or not address.hostname:
        raise ValueError(
            f'ready = "{text}" is neither a path ("/health") nor http://HOST:PORT/PATH nor tcp://HOST:PORT'
        )
    scheme = Scheme(address.scheme)
    if scheme is Scheme.TCP:
        if address.port is None:
            raise ValueError(f'ready = "{text}" names no port')
        return Target(scheme=scheme, host=address.hostname, port=address.port)
    query = f"?{address.query}" if address.query else ""
    return Target(scheme=scheme, host=address.hostname, port=address.port or 80, path=(address.path or "/") + query)
