# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: `[setup-env]` with what the command line gives instead."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ci_doctor.config.decoding import DEFAULT, decode_section, path_in
from ci_doctor.config.exit_codes import read_exit_codes
from ci_doctor.config.loading import load_config
from ci_doctor.environment.detection import has_project
from ci_doctor.environment.preparation import prepared_value
from ci_doctor.environment.settings import SetupEnvSettings
from ci_doctor.session.exit_policy import ExitPolicy
from ci_doctor.session.session import Session


def read_settings(
    session: Session,
    config_path: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    *,
    keeps_missing: bool = False,
) -> SetupEnvSettings:
    """The settings, with the paths of a file made relative to the working directory.

    Without a Python project there, and without a word about projects, none is left, unless
    `keeps_missing`. The session gets the repository's own exit codes. Raises ConfigError.
    """
    settings, _ = read_job_settings(
        session, config_path, environ, flags, keeps_missing=keeps_missing
    )
    return settings


def read_job_settings(
    session: Session,
    config_path: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    *,
    keeps_missing: bool = False,
) -> tuple[SetupEnvSettings, str]:
    """The same with the value of CI_DOCTOR_PREPARED, which later commands of the job compare."""
    loaded = load_config(config_path, Path.cwd())
    codes, _ = read_exit_codes(loaded, environ)
    session.policy = ExitPolicy(codes=codes)
    settings, origins = decode_section(
        loaded, "setup-env", SetupEnvSettings, environ=environ, flags=flags
    )

    def placed(name: str, word: str) -> str:
        # The name of an interpreter without a slash is looked up on PATH.
        if name == "pythons" and "/" not in word:
            return word
        return str(path_in(loaded, origins[name], word))

    projects = [placed("projects", word) for word in settings.projects]
    if not keeps_missing and origins["projects"] == DEFAULT and not has_project(Path.cwd()):
        projects = []  # nobody named one, and a job without a Python project needs no pin
    venvs = [placed("venvs", word) for word in settings.venvs]
    pythons = [placed("pythons", word) for word in settings.pythons]
    settings = replace(
        settings, projects=tuple(projects), venvs=tuple(venvs), pythons=tuple(pythons)
    )
    return settings, prepared_value(loaded, environ)
