# SPDX-License-Identifier: Apache-2.0
"""Pure. The result of changing one interpreter: done, or refused."""

from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import CiDoctorError
from ci_doctor.model.action import WriteFile
from ci_doctor.model.finding import Finding
from ci_doctor.preload.preload_rule import PreloadRule
from ci_doctor.preload.preset_fit import PresetState
from ci_doctor.preload.target import Target


class InstallResult(Struct, frozen=True, kw_only=True):
    """What was done to one target, or would be: `actions` in order, the rules armed at the end."""

    target: Target
    actions: tuple[WriteFile, ...]
    rules: tuple[PreloadRule, ...] = ()
    findings: tuple[Finding, ...] = ()
    presets: tuple[PresetState, ...] = ()


class Refused(Struct, frozen=True, kw_only=True):
    """An interpreter that nothing can be done to, and why."""

    python: Path
    error: CiDoctorError
    target: Target | None = None


Result = InstallResult | Refused
