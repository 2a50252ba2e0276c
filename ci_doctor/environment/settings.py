# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[setup-env]` section."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.environment.determinism import Profile
from ci_doctor.model.quantities import parse_duration


class Verify(StrEnum):
    """Whether a pin is proven by a build of the project's metadata."""

    # Where that is cheap, or where the version cannot be known otherwise.
    AUTO = "auto"
    # In every case; the build requirements are installed if need be.
    ALWAYS = "always"
    NEVER = "never"


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
    verify: Verify = Verify.AUTO
    verify_timeout: str | int | float = "120s"

    @property
    def verify_timeout_s(self) -> float:
        """The time for all builds of one project, in seconds. Raises UsageError."""
        return parse_duration(self.verify_timeout)
