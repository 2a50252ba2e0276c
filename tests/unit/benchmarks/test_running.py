"""Steps of a job as real processes."""

import sys
from pathlib import Path

import pytest

from benchmarks.diagnose.passing.frames import Step
from benchmarks.diagnose.passing.running import StepFailedError, environ_of, run_step

LONG_S = 60.0


def run(command: str, place: Path, timeout_s: float = LONG_S) -> Step:
    return run_step(command, place, environ_of(place, place, sys.executable), timeout_s=timeout_s)


def test_a_step_that_passes_has_the_lines_of_both_streams(tmp_path: Path) -> None:
    step = run("echo one; echo two >&2; printf '\\377'", tmp_path)

    assert [line.text for line in step.lines] == ["one", "two", "\udcff"]


@pytest.mark.parametrize("command", ["exit 3", "false; true", "false | true", "kill -9 $$"])
def test_a_step_that_fails_anywhere_is_no_passing_run(command: str, tmp_path: Path) -> None:
    with pytest.raises(StepFailedError):
        run(f"echo before; {command}", tmp_path)


def test_a_step_beyond_its_time_is_no_passing_run(tmp_path: Path) -> None:
    with pytest.raises(StepFailedError, match=r"not over in 0\.5 s"):
        run("sleep 600", tmp_path, timeout_s=0.5)


def test_a_server_left_behind_does_not_hold_the_step(tmp_path: Path) -> None:
    step = run("sleep 600 & echo ready", tmp_path)

    assert [line.text for line in step.lines] == ["ready"]


def test_variables_of_the_ci_system_are_not_handed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x")
    monkeypatch.setenv("BUILDKITE_JOB_ID", "1")

    step = run("env", tmp_path)

    names = [line.text.partition("=")[0] for line in step.lines]
    assert "PYTEST_ADDOPTS" not in names
    assert "BUILDKITE_JOB_ID" not in names
    assert "PLACE" in names
