"""Makes what the checks of `ci-doctor doctor` look at."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.machine.interpreters import TargetInterpreter
from ci_doctor.services.spec import ServiceSpec


def check_context(
    cwd: Path,
    *,
    environ: Mapping[str, str] | None = None,
    settings: DoctorSettings | None = None,
    services: Mapping[str, ServiceSpec] | None = None,
    pythons: Sequence[Path] = (),
    root: Path = Path("/"),
) -> CheckContext:
    """A context for one check; without `environ`, our own environment."""
    targets = [
        TargetInterpreter(python=python, why="of the test", named=True, own=False)
        for python in pythons
    ]
    return CheckContext(
        environ=os.environ if environ is None else environ,
        cwd=cwd,
        settings=settings,
        services=services,
        targets=targets,
        root=root,
    )


def without_deadlines(checks: Iterable[DoctorCheck]) -> list[DoctorCheck]:
    """`checks` for a test of what they find: on a busy machine a sound environment is sound too."""
    return [replace(check, deadline_s=600.0) for check in checks]
