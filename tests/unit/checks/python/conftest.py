"""A sound environment, made once, and copies of it that a test may break."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, DoctorCheck
from tests.support.checks import check_context
from tests.support.packages import copy_of, install, make_venv, site_of

# Variables of the machine that runs the tests must not matter.
ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}

Examine = Callable[..., CheckResult]


@pytest.fixture(scope="session")
def sound_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with two packages, one of which requires the other."""
    venv = tmp_path_factory.mktemp("sound") / "venv"
    site = site_of(make_venv(venv))
    install(site, "frame", "2.0")
    install(site, "engine", "1.0", requires=["frame>=2", "absent; extra == 'all'"])
    return venv


@pytest.fixture
def python(sound_venv: Path, tmp_path: Path) -> Path:
    """The python of a copy that a test may break."""
    return copy_of(sound_venv, tmp_path / "venv")


@pytest.fixture
def examine(tmp_path: Path) -> Examine:
    """Runs a check for interpreters, in an empty directory of a job."""
    job = tmp_path / "job"
    job.mkdir()

    def run(check: DoctorCheck, *pythons: Path, **environ: str) -> CheckResult:
        context = check_context(job, environ={**ENVIRON, **environ}, pythons=pythons)
        return check.run(context)

    return run
