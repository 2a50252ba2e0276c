"""How a trial ended, from what the plugin wrote and how the process ended."""

import json

import pytest

from ci_doctor.pytest_runs.trial import CRASHED, TIMED_OUT, Ending, FlakyTrial, result_of

TRIAL = FlakyTrial(target="t")


def written(**fields: object) -> bytes:
    return json.dumps({"began": True, **fields}).encode()


def test_a_failure_by_the_suspects_exception_is_its_failure() -> None:
    text = written(outcome="failed", types=["URLError", "OSError", "ConnectionRefusedError"])

    assert result_of(TRIAL, text, 1, "ConnectionRefusedError").ending is Ending.FAILED


def test_a_failure_by_another_exception_is_not() -> None:
    text = written(outcome="failed", types=["ImportError", "Exception"])

    assert result_of(TRIAL, text, 1, "AssertionError").ending is Ending.OTHER


def test_without_a_known_exception_any_failure_counts() -> None:
    text = written(outcome="failed", types=["ImportError"])

    assert result_of(TRIAL, text, 1, None).ending is Ending.FAILED


@pytest.mark.parametrize(("exit_code", "error"), [(None, TIMED_OUT), (-11, CRASHED)])
def test_a_process_that_ends_within_the_target_failed(exit_code: int | None, error: str) -> None:
    assert result_of(TRIAL, written(), exit_code, error).ending is Ending.FAILED


@pytest.mark.parametrize("text", [None, written(began=False), written(outcome="skipped")])
def test_a_target_that_did_not_run_neither_passed_nor_failed(text: bytes | None) -> None:
    assert result_of(TRIAL, text, 0, None).ending is Ending.OTHER


def test_only_the_targets_own_connections_count() -> None:
    text = written(outcome="passed", connected=[["other", "a:1"], ["t", "b:2"]])

    assert result_of(TRIAL, text, 0, None).connected == ("b:2",)
