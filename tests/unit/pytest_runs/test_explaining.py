# SPDX-License-Identifier: Apache-2.0
"""Which failed tests of a suite are explained, and from which circumstances."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.explaining import (
    PLUGIN,
    explained,
    options_for_tests,
    share_of,
    shell_command,
    suspects_of,
    trial_command,
    undo,
)
from ci_doctor.pytest_runs.explanation import FlakyKind
from ci_doctor.pytest_runs.plan import FOLDER
from ci_doctor.pytest_runs.reruns import SuiteFailure, retried_failures
from ci_doctor.pytest_runs.trial import CRASHED, TIMED_OUT, Ending, FlakyTrial, Suspect, TrialResult
from tests.support.pytest_sessions import a_plan, an_attempt

COLLECTED = ("a.py::s", "a.py::p", "a.py::t")


def attempt(outcome: PytestOutcome, message: str | None = "KeyError: 'x'") -> TestAttempt:
    return an_attempt(outcome, "a.py::t", message=message)


def session(kind: RunKind, outcome: PytestOutcome) -> PytestSession:
    return PytestSession(
        kind=kind, attempts=(attempt(outcome),), collected=COLLECTED, hash_seed="7", seed=3
    )


def suspects(
    alone: PytestOutcome | None,
    *,
    before: tuple[str, ...] = ("a.py::p",),
    failed: TestAttempt | None = None,
) -> tuple[Suspect, ...]:
    sessions = [session(RunKind.SUITE, PytestOutcome.FAILED)]
    if alone is not None:
        sessions.append(session(RunKind.ALONE, alone))
    failure = SuiteFailure(
        attempt=failed or attempt(PytestOutcome.FAILED), before=before, is_order_known=True
    )
    return suspects_of([failure], sessions)


def test_a_test_that_passes_alone_is_a_suspect_with_the_circumstances_of_the_suite() -> None:
    [suspect] = suspects(PytestOutcome.PASSED)

    assert suspect == Suspect(
        test="a.py::t", before=("a.py::p",), error="KeyError", hash_seed=7, seed=3
    )


def test_a_test_that_always_failed_in_the_order_of_the_files_is_none() -> None:
    assert suspects(PytestOutcome.FAILED, before=("a.py::s", "a.py::p")) == ()


def test_a_test_that_always_failed_in_another_order_may_need_a_test_before_it() -> None:
    [suspect] = suspects(PytestOutcome.FAILED, before=())

    assert suspect.always_failed
    assert suspect.before == ("a.py::s", "a.py::p")


def test_without_reruns_every_failed_test_is_a_suspect() -> None:
    [suspect] = suspects(None)

    assert not suspect.always_failed


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (PytestOutcome.TIMEOUT, TIMED_OUT),
        (PytestOutcome.CRASHED, CRASHED),
        (PytestOutcome.LOST, CRASHED),
    ],
)
def test_a_test_that_did_not_end_is_known_by_how(outcome: PytestOutcome, error: str) -> None:
    [suspect] = suspects(PytestOutcome.PASSED, failed=attempt(outcome, None))

    assert suspect.error == error


def test_the_command_is_for_a_shell_where_the_user_stands(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    plan = a_plan(directory=tmp_path, args=("tests", "-m", "fast"))
    trial = FlakyTrial(target="tests/a.py::t")

    line = "/py -m pytest -p no:randomly -m fast tests/a.py::t"
    assert trial_command(trial, plan, str(tmp_path), tmp_path) == line


def test_the_command_finds_a_test_whose_root_is_elsewhere(tmp_path: Path) -> None:
    here = tmp_path / "sub"
    here.mkdir()
    plan = a_plan(directory=here, args=("-c", "own.ini"))
    trial = FlakyTrial(target="tests/a.py::t", before=("sub/b.py::t[a/../b::c]",))

    options = "/py -m pytest -p no:randomly -c own.ini"
    tests = "'b.py::t[a/../b::c]' ../tests/a.py::t"
    assert trial_command(trial, plan, str(tmp_path), here) == f"{options} {tests}"


def test_a_test_that_a_plugin_ran_again_until_it_passed_is_a_failure_to_explain() -> None:
    retried = PytestSession(
        kind=RunKind.SUITE,
        attempts=(attempt(PytestOutcome.FAILED), attempt(PytestOutcome.PASSED)),
        collected=COLLECTED,
    )

    [failure] = retried_failures([retried])
    [suspect] = suspects_of([failure], [retried])

    assert (suspect.test, suspect.error, suspect.always_failed) == ("a.py::t", "KeyError", False)


@pytest.mark.parametrize(
    ("left_s", "suspects", "share_s"),
    [(120.0, 1, 120.0), (120.0, 2, 60.0), (120.0, 20, 30.0), (90.0, 19, 30.0), (10.0, 9, 10.0)],
)
def test_no_share_is_below_a_quarter_of_the_budget_while_it_lasts(
    left_s: float, suspects: int, share_s: float
) -> None:
    assert share_of(left_s, 120.0, suspects) == share_s


def test_an_order_needs_nothing_of_ours() -> None:
    trial = FlakyTrial(target="a.py::t[x y]", before=("a.py::p",), hash_seed=0)

    line = shell_command(trial, "python")

    assert line == "PYTHONHASHSEED=0 python -m pytest -p no:randomly a.py::p 'a.py::t[x y]'"


def test_an_earlier_run_is_a_command_of_its_own() -> None:
    trial = FlakyTrial(target="a.py::t", earlier=("a.py::t",), zone="UTC")

    command = "TZ=UTC python -m pytest -p no:randomly a.py::t"
    assert shell_command(trial, "python") == f"{command}; {command}"


def test_a_condition_of_the_plugin_brings_the_plugin() -> None:
    trial = FlakyTrial(target="a.py::t", seed=3, hash_seed=1)

    words = shlex.split(shell_command(trial, "python", ["-m", "not slow"]))

    assert words[:2] == ["PYTHONHASHSEED=1", f"PYTHONPATH={FOLDER}"]
    assert (FOLDER / f"{PLUGIN}.py").is_file()
    trial_of_plugin = json.loads(words[2].removeprefix("CI_DOCTOR_TRIAL="))
    assert trial_of_plugin == {"seed": 3, "tests": ["a.py::t"]}
    assert words[3:] == ["python", "-m", "pytest", "-p", PLUGIN, "-m", "not slow", "a.py"]


def test_options_of_a_suite_and_its_paths_are_left_out() -> None:
    words = shlex.split(
        "-p my -n 2 --dist=loadfile tests/a.py -x --junitxml r.xml --basetemp t --log-file l --cov=src -m 'not slow' -n0"
    )

    kept = options_for_tests(words, lambda word: word.startswith("tests/"))

    assert kept == ("-p", "my", "-m", "not slow", "-n0")


def test_a_value_with_the_name_of_a_file_stays_with_its_option() -> None:
    words = shlex.split("-c tox.ini -k gpu -m tests --rootdir . --ignore tests/old tests gpu")
    files = {"tox.ini", "gpu", "tests", ".", "tests/old"}

    kept = options_for_tests(words, files.__contains__)

    assert kept == ("-c", "tox.ini", "-k", "gpu", "-m", "tests", "--rootdir", ".", "--ignore", "tests/old")  # fmt: skip


def test_a_value_that_looks_like_an_option_of_a_suite_stays() -> None:
    assert options_for_tests(["-k", "-n", "-q"], lambda _: False) == ("-k", "-n", "-q")


def test_an_option_of_a_suite_without_a_value_takes_no_other_option_away() -> None:
    assert options_for_tests(["--cov", "-k", "x", "--stepwise"], lambda _: False) == ("-k", "x")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-q", "-p", "randomly", "--randomly-seed=2", "-k", "a"),
        ("-prandomly", "-q", "--randomly-seed", "2", "-k", "a"),
        ("-q", "--random-order", "--random-order-bucket", "global", "-k", "a"),
        ("--random-order-seed=3", "-q", "--randomly-dont-reset-seed", "-k", "a"),
    ],
)
def test_a_command_in_a_given_order_has_no_option_that_shuffles(arguments: Sequence[str]) -> None:
    trial = FlakyTrial(target="a.py::t")

    command = "python -m pytest -p no:randomly -q -k a a.py::t"
    assert shell_command(trial, "python", arguments) == command


def make(trial: FlakyTrial, _error: str | None) -> TrialResult:
    """It fails in one time zone."""
    is_failure = trial.zone == "Etc/GMT-14"
    return TrialResult(ending=Ending.FAILED if is_failure else Ending.PASSED)


def test_every_trial_is_announced_and_counted() -> None:
    numbers: list[int] = []

    found = explained(Suspect(test="t"), make, 1000, say=numbers.append)

    assert found.kind is FlakyKind.TIME_ZONE
    assert numbers == list(range(1, found.runs + 1))


def test_no_time_at_all_makes_no_trial() -> None:
    found = explained(Suspect(test="t"), make, 0)

    assert (found.runs, found.kind) == (0, None)


def test_after_an_interruption_no_trial_begins() -> None:
    numbers: list[int] = []

    explained(Suspect(test="t"), make, 1000, say=numbers.append, is_over=lambda: len(numbers) >= 3)

    assert numbers == [1, 2, 3]


def test_what_was_made_is_removed_and_what_was_changed_is_written_back(tmp_path: Path) -> None:
    copy, changed = tmp_path / "copy", tmp_path / "changed"
    copy.write_text("before")
    changed.write_text("after")
    folder, link, other = tmp_path / "made", tmp_path / "link", tmp_path / "other"
    (folder / "below").mkdir(parents=True)
    other.mkdir()
    link.symlink_to(other)
    record = tmp_path / "undo.json"
    made = [str(folder), str(link), str(tmp_path / "gone")]
    record.write_text(json.dumps({"made": made, "changed": {str(changed): str(copy)}}))

    undo(record)

    assert changed.read_text() == "before"
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["changed", "copy", "other", "undo.json"]


def test_without_a_record_nothing_is_touched(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()

    undo(tmp_path / "undo.json")

    assert (tmp_path / "kept").exists()
