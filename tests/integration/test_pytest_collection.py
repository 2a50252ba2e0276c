# SPDX-License-Identifier: Apache-2.0
"""A collection that hangs in C ends in bounded time, and the run names the file: real processes of pytest."""

import os
from pathlib import Path

import pytest

from ci_doctor.pytest_runs.attempt import PytestSession, RunKind
from ci_doctor.pytest_runs.plan import PytestPlan
from ci_doctor.pytest_runs.process import PytestRunner
from ci_doctor.pytest_runs.result import run_problems
from ci_doctor.system.processes.interruption import Interruption
from tests.support.pytest_projects import XDIST, TestProject, make_environment

pytestmark = pytest.mark.integration

# The process blocks in read(2), outside of Python, and nothing ever comes.
HANGS = "import os\nos.read(os.pipe()[0], 1)\n"
# Long enough for pytest to start on a machine that is busy; each case waits for it once.
LIMIT_S = 6.0


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("plugins") / "venv", *XDIST)


def run(project: TestProject, tmp_path: Path, *args: str) -> PytestSession:
    plan = PytestPlan(
        kind=RunKind.SUITE,
        python=project.python,
        args=args,
        environ={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        directory=project.directory,
        timeout_s=1.0,
        least_collection_s=LIMIT_S,
    )
    interruption = Interruption()
    with interruption.handling():
        runner = PytestRunner(tmp_path, tmp_path, interruption)
        try:
            return runner.run(plan)
        finally:
            runner.close()


@pytest.mark.gate(1)
@pytest.mark.parametrize("args", [("-n0",), ("-n2",)], ids=" ".join)
def test_a_module_whose_import_hangs_ends_the_run_and_is_named(
    python: Path, tmp_path: Path, args: tuple[str, ...]
) -> None:
    project = TestProject(tmp_path / "project", python)
    project.put("test_a.py", "def test_a(): pass\n")
    project.put("sub/test_hang.py", f"{HANGS}def test_hang(): pass\n")

    session = run(project, tmp_path, *args)

    (problem,) = run_problems([session])
    assert problem.text.startswith("sub/test_hang.py was being collected for longer than 6 s")
    assert not problem.is_failure
    assert "test_hang.py" in problem.detail
    assert (session.attempts, session.finished, session.signal) == ((), None, "SIGKILL")


def test_a_conftest_file_whose_import_hangs_is_named(python: Path, tmp_path: Path) -> None:
    project = TestProject(tmp_path / "project", python)
    project.put("slow.py", HANGS)
    project.put("conftest.py", "import slow\n")
    project.put("test_a.py", "def test_a(): pass\n")

    session = run(project, tmp_path)

    (problem,) = run_problems([session])
    assert problem.text.split(" was ")[0] == str(project.directory / "conftest.py")
    assert "slow.py" in problem.detail
