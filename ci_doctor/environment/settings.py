# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[setup-env]` section."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.environment.determinism import Profile


class IfMissing(StrEnum):
    """What later commands of a job say if `setup-env` did not run for it."""

    OFF = "off"
    WARNING = "warning"
    ERROR = "error"


class SetupEnvSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to prepare. Paths are relative to the file naming them, or to the working directory."""

    projects: tuple[str, ...] = (".",)
    pythons: tuple[str, ...] = ()
    venvs: tuple[str, ...] = ()
    determinism: Profile = Profile.DEFAULT
    preload: tuple[str, ...] = ()
    allow_fallback: bool = False
    if_missing: IfMissing = IfMissing.WARNING
