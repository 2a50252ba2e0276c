# SPDX-License-Identifier: Apache-2.0
"""What a launch starts, as written and as checked. Pure."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.services.spec import LaunchContext, ServiceSpec


class LaunchRequest(Struct, frozen=True, kw_only=True):
    """Which services to start, and what to run under them.

    `names` of `specs` are started, with everything that they need; `services_directory` is the base
    of their relative `cwd`. `limit_s` is what all have together to become ready, None for each
    one's own `start_timeout`. `client` is a command, empty for none. It runs in `client_directory`
    on our own stdin and stderr and the file descriptor `client_output`. All run under
    `environment`. `directory` receives the logs, `events` is a file to write events to.
    """

    specs: Mapping[str, ServiceSpec]
    names: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    services_directory: Path = Path()
    limit_s: float | None = None
    client: tuple[str, ...] = ()
    client_directory: Path = Path()
    client_output: int = 1
    events: Path | None = None


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """A request that was checked: `order` are all services, each after what it needs."""

    request: LaunchRequest
    order: tuple[str, ...]
    context: LaunchContext
