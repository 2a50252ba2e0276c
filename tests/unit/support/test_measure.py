# SPDX-License-Identifier: Apache-2.0
"""Which Pythons are measured, and that what is recorded of them is what coverage itself would record."""

import gc
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import coverage
import pytest

from tests.support import measure, measured


@pytest.mark.parametrize(
    "line",
    [
        "-m ci_doctor --version",
        "-X importtime -m ci_doctor.commands",
        "-u -m pytest tests",
        "/venv/bin/ci-doctor launch",
        "/venv/bin/pytest",
        "/checkout/tests/support/programs/holds_a_guardian.py",
        "-Ic sys.stdin.readline()",
        "-c from\tci_doctor\timport\tcli",
    ],
)
def test_a_python_that_runs_ours_is_measured(line: str) -> None:
    assert measure.runs_ours(line.split(" "))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "-V",
        "-m http.server",
        "-m venv ci_doctor",
        "-c pass ci_doctor",
        "/checkouts/ci-doctor/tests/support/programs/answers.py 8000 /tmp/pytest-of-me/pytest-0",
        "-X importtime server.py ci-doctor",
    ],
)
def test_no_other_is(line: str) -> None:
    assert not measure.runs_ours(line.split(" "))


PROGRAM = """
import threading

def sign(number):
    if number < 0:
        return -1
    return 1

def count():
    import colorsys
    for number in range(3):
        sign(number)

import sched
thread = threading.Thread(target=count)
thread.start()
thread.join()
sorted([sign(number) for number in (1, -1)], key=lambda number: number)
"""
ENDS = {
    "at its end": "",
    "by _exit": "import os; os._exit(0)",
    "as another program": "import os; os.execv('/bin/true', ['true'])",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with a package named as ours, and what tests/run.sh puts into its environment."""
    (tmp_path / "ci_doctor").mkdir()
    (tmp_path / "ci_doctor" / "never_run.py").write_text("pass\n")
    (tmp_path / "site-packages" / "coverage").parent.mkdir()
    (tmp_path / "site-packages" / "coverage").symlink_to(Path(coverage.__file__).parent)
    (tmp_path / "site-packages" / "measure.py").write_text(Path(measure.__file__).read_text())
    return tmp_path


def arcs(file: Path, of: Path) -> set[tuple[int, int]]:
    """The pairs of lines of `PROGRAM` that a data file has for `of`: which line was run after which."""
    data = coverage.CoverageData(str(file))
    data.read()
    last = PROGRAM.count("\n")
    return {arc for arc in data.arcs(str(of)) or () if min(arc) > 0 and max(arc) <= last}


def record(root: Path) -> None:
    """Import the package with `measure` at work, and make coverage's data of it."""
    environment = {
        **os.environ,
        "MEASURE_COVERAGE": str(root),
        "PYTHONPATH": str(root / "site-packages"),
    }
    # Without site: there another `measure` may be at work, that of this very test.
    program = [sys.executable, "-S", "-c", "import measure; measure.start(); import ci_doctor"]
    subprocess.run(program, cwd=root, env=environment, check=True)
    measured.write(root)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[int, int]]:
    """What coverage itself records of the program."""
    script = tmp_path_factory.mktemp("reference") / "script.py"
    script.write_text(PROGRAM)
    words = [sys.executable, "-m", "coverage", "run", "--branch", "--data-file=data", script.name]
    subprocess.run(words, cwd=script.parent, check=True)
    return arcs(script.parent / "data", script)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_record_holds_what_coverage_would(
    root: Path, end: str, reference: set[tuple[int, int]]
) -> None:
    ours = root / "ci_doctor" / "__init__.py"
    ours.write_text(PROGRAM + end)
    record(root)

    assert arcs(root / ".coverage", ours) == reference
    assert len(reference) > 10


def test_a_module_of_others_is_not_traced_and_what_is_ours_is_from_there_on(root: Path) -> None:
    """Tracing doubles what an import costs; of others it records nothing."""
    (root / "site-packages" / "others.py").write_text(
        "import sys\nTRACED = sys.gettrace() is not None\nraise ImportError(TRACED)\n"
    )
    ours = root / "ci_doctor" / "__init__.py"
    ours.write_text(
        "import sys\n"
        "try:\n"
        "    import others\n"
        "except ImportError as error:\n"
        "    assert error.args == (False,)\n"
        "assert sys.gettrace() is not None\n"
    )
    record(root)
    data = coverage.CoverageData(str(root / ".coverage"))
    data.read()

    assert data.lines(str(ours)) == [1, 2, 3, 4, 5, 6]


class Tracer:
    """What coverage's own is to its owner."""

    def start(self) -> None:
        """Nothing to trace."""


def test_a_tracer_is_kept_when_its_thread_has_ended() -> None:
    """Whichever thread lets a tracer of coverage go is traced no longer itself."""
    recorder = measure.Recorder(SimpleNamespace(CTracer=Tracer), "/root")
    recorder.start()
    gc.collect()

    assert [each for each in gc.get_objects() if isinstance(each, Tracer)]


def test_a_file_that_nobody_runs_is_in_the_data_with_no_line(root: Path) -> None:
    (root / "ci_doctor" / "__init__.py").write_text("")
    record(root)
    data = coverage.CoverageData(str(root / ".coverage"))
    data.read()

    assert data.lines(str(root / "ci_doctor" / "never_run.py")) == []
    assert not list(root.glob("*.arcs"))
