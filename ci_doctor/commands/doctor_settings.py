# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: `[doctor]`, the services, and the interpreters of the job."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.settings import DoctorSettings, require_readable, require_runnable
from ci_doctor.config.decoding import decode_section, path_in
from ci_doctor.config.exit_codes import read_exit_codes
from ci_doctor.config.loading import Config, load_config
from ci_doctor.machine.interpreters import choose_targets
from ci_doctor.services.spec import service_specs
from ci_doctor.session.exit_policy import ExitPolicy
from ci_doctor.session.session import Session


def read_doctor_settings(
    session: Session,
    config_path: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
) -> tuple[Config, DoctorSettings]:
    """The configuration, and `[doctor]` of it with paths relative to the working directory.

    The session gets the repository's own exit codes. Raises ConfigError.
    """
    loaded = load_config(config_path, Path.cwd())
    codes, _ = read_exit_codes(loaded, environ)
    session.policy = ExitPolicy(codes=codes)
    settings, origins = decode_section(
        loaded, "doctor", DoctorSettings, environ=environ, flags=flags
    )

    def place(*keys: str | int) -> str:
        origin = origins["checks"]
        if origin.startswith("environment "):
            return origin
        return loaded.where("doctor", "checks", *keys)

    require_runnable(settings.checks, place)
    require_readable(settings, origins.__getitem__)

    def placed(name: str, words: list[str]) -> list[str]:
        return [str(path_in(loaded, origins[name], word)) for word in words]

    since_green = settings.since_green or None
    if since_green is not None:
        since_green = str(path_in(loaded, origins["since_green"], since_green))
    settings = replace(
        settings,
        since_green=since_green,
        venvs=placed("venvs", settings.venvs),
        caches=placed("caches", settings.caches),
    )
    return loaded, settings


def context_of(
    loaded: Config, settings: DoctorSettings, environ: Mapping[str, str]
) -> CheckContext:
    """What the checks look at. Raises ConfigError, and UsageError for a missing interpreter."""
    cwd = Path.cwd()
    return CheckContext(
        environ=environ,
        cwd=cwd,
        settings=settings,
        services=service_specs(loaded),
        targets=choose_targets(settings.pythons, settings.venvs, [cwd], environ, broken=True),
    )
