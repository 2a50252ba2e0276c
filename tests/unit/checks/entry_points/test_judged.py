# SPDX-License-Identifier: Apache-2.0
"""What a start of an entry point shows: it starts, it fails for a cause, or nothing."""

import sys
from pathlib import Path

import pytest

from ci_doctor.checks.check import Fault
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.entry_points.entry_point import EntryCommand
from ci_doctor.checks.entry_points.judged import JudgedEntry, judge_entry
from ci_doctor.checks.entry_points.probing import ProbedEntry
from ci_doctor.system.processes.limited_runs import SeparateRun
from tests.support.checks import check_context

ENTRY = EntryCommand(
    name="served of PY",
    words=("/venv/bin/served",),
    python=Path("/venv/bin/python"),
    module="served.cli",
)
PACKAGES = "/venv/lib/python3.12/site-packages"


@pytest.fixture
def context(tmp_path: Path) -> CheckContext:
    """A machine without a GPU."""
    return check_context(tmp_path, environ={"PATH": ""}, root=tmp_path)


def judged(
    context: CheckContext,
    stderr: str,
    *,
    exit_code: int | None = 1,
    entry: EntryCommand = ENTRY,
) -> JudgedEntry:
    run = SeparateRun(exit_code=exit_code, stdout="", stderr=stderr, duration_s=1.5)
    return judge_entry(ProbedEntry(entry=entry, run=run), context)


def traceback(error: str, *, file: str = f"{PACKAGES}/served/cli.py") -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "/venv/bin/served", line 3, in <module>\n'
        "    from served.cli import main\n"
        f'  File "{file}", line 7, in <module>\n'
        "    import something\n"
        f"{error}\n"
    )


def test_an_entry_point_that_starts_says_how_long_it_took(context: CheckContext) -> None:
    shown = judged(context, "", exit_code=0)

    assert (shown.summary, shown.problem) == ("served of PY starts in 1.5 s", None)


def test_a_missing_module_names_its_distribution(context: CheckContext) -> None:
    shown = judged(context, traceback("ModuleNotFoundError: No module named 'cv2'"))

    assert shown.problem is not None
    finding = shown.problem.finding
    assert finding.rule == "doctor/entry-point-fails"
    assert "No module named 'cv2'" in finding.summary
    assert finding.remedy == "/venv/bin/python -m pip install opencv-python-headless"


def test_a_missing_module_of_unknown_origin_is_not_installed_by_its_name(
    context: CheckContext,
) -> None:
    shown = judged(context, traceback("ModuleNotFoundError: No module named 'acmelib'"))

    assert shown.problem is not None
    assert "pip install" not in (shown.problem.finding.remedy or "")
    assert "`acmelib`" in (shown.problem.finding.remedy or "")


def test_a_missing_library_is_named_with_its_version(context: CheckContext) -> None:
    error = (
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory"
    )

    shown = judged(context, traceback(error))

    assert shown.problem is not None
    assert (shown.problem.finding.remedy or "").startswith("libcudart.so.13 is missing")


def test_an_import_that_works_by_itself_was_lost_to_another_thread(
    context: CheckContext, tmp_path: Path
) -> None:
    (tmp_path / "racy.py").write_text("Config = 1\n")
    entry = EntryCommand(
        name="served",
        words=("served",),
        python=Path(sys.executable),
        module="served.cli",
        cwd=tmp_path,
    )
    error = f"ImportError: cannot import name 'Config' from 'racy' ({tmp_path}/racy.py)"

    shown = judged(context, traceback(error), entry=entry)

    assert shown.problem is not None
    assert shown.problem.finding.remedy == (
        f"ci-doctor preload install --python {sys.executable} --rule served.cli=racy:Config"
    )


def test_a_name_that_is_not_there_is_no_race(context: CheckContext, tmp_path: Path) -> None:
    (tmp_path / "older.py").write_text("\n")
    entry = EntryCommand(
        name="served", words=("served",), python=Path(sys.executable), module="s", cwd=tmp_path
    )
    error = f"ImportError: cannot import name 'Config' from 'older' ({tmp_path}/older.py)"

    shown = judged(context, traceback(error), entry=entry)

    assert shown.problem is not None
    assert "preload install" not in (shown.problem.finding.remedy or "")


def test_no_gpu_is_no_failure_of_the_imports(context: CheckContext) -> None:
    shown = judged(context, traceback("RuntimeError: Failed to infer device type"))

    assert shown.problem is None
    assert (shown.unknown or "").startswith(
        "served of PY asks for a GPU, and this machine has none"
    )


def test_beside_a_gpu_the_same_is_an_error(context: CheckContext, tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia0").touch()

    shown = judged(context, traceback("RuntimeError: Failed to infer device type"))

    assert shown.problem is not None


def test_a_package_that_is_not_installed_is_said_so(context: CheckContext) -> None:
    shown = judged(context, traceback("ModuleNotFoundError: No module named 'served'"))

    assert shown.summary == "/venv/bin/python has no package `served`"


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("src/mine.py", Fault.REPOSITORY),
        (".venv/lib/python3.12/site-packages/served/cli.py", Fault.ENVIRONMENT),
    ],
)
def test_an_error_in_the_checkout_is_of_the_repository(
    place: str, fault: Fault, context: CheckContext, tmp_path: Path
) -> None:
    text = traceback("KeyError: 'port'", file=str(tmp_path / place))

    shown = judged(context, text)

    assert shown.problem is not None
    assert shown.problem.fault is fault


def test_an_error_that_the_checkout_led_to_is_of_the_repository(
    context: CheckContext, tmp_path: Path
) -> None:
    library = tmp_path / ".venv/lib/python3.12/site-packages/served/cli.py"
    inner = traceback("TypeError: run() got an unexpected keyword argument", file=str(library))
    header, _, rest = inner.partition("\n")
    text = f'{header}\n  File "{tmp_path}/src/mine.py", line 3, in main\n    run(fast=1)\n{rest}'

    shown = judged(context, text)

    assert shown.problem is not None
    assert shown.problem.fault is Fault.REPOSITORY


def test_an_end_without_a_traceback_is_not_laid_on_the_environment(context: CheckContext) -> None:
    shown = judged(context, "served: error: no model was given\n")

    assert shown.problem is not None
    assert shown.problem.fault is Fault.REPOSITORY


def test_what_hangs_is_unknown_with_the_place(context: CheckContext) -> None:
    stderr = (
        "Fatal Python error: Aborted\n\n"
        "Current thread 0x00007f0000000000 (most recent call first):\n"
        '  File "/x/lock.py", line 3 in acquire\n'
        '  File "/x/cli.py", line 9 in <module>\n\n'
        "Extension modules: a, b\n"
    )

    shown = judged(context, stderr, exit_code=None)

    assert shown.unknown == (
        'served of PY had not ended after 1.5 s, it was in File "/x/lock.py", line 3 in acquire'
    )
    assert (shown.evidence[0].excerpt or "").count("\n") == 1


def test_a_program_that_hangs_without_a_word_is_unknown(context: CheckContext) -> None:
    assert judged(context, "", exit_code=None).unknown == "served of PY had not ended after 1.5 s"


def test_a_crash_is_named_by_its_signal(context: CheckContext) -> None:
    shown = judged(context, "", exit_code=-11)

    assert shown.problem is not None
    assert "SIGSEGV" in shown.problem.finding.summary
