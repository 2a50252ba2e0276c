"""When a condition is said to decide an ending."""

from collections.abc import Generator

import pytest

from ci_doctor.pytest_runs.trial import Ending, FlakyTrial, TrialResult, mostly, strictly

CAUSE = FlakyTrial(target="t", zone="Asia/Kolkata")
CONTROL = FlakyTrial(target="t")


def confirmed(
    search: Generator[FlakyTrial, TrialResult, bool], cause: str, control: str
) -> tuple[bool, int]:
    """The answer, and the number of trials; the letters are endings in turn, F or P."""
    endings = {CAUSE: iter(cause), CONTROL: iter(control)}
    trials = 0
    try:
        trial = next(search)
        while True:
            trials += 1
            letter = next(endings[trial])
            ending = {"F": Ending.FAILED, "P": Ending.PASSED, "O": Ending.OTHER}[letter]
            trial = search.send(TrialResult(ending=ending))
    except StopIteration as stop:
        return stop.value, trials


def test_five_pairs_that_agree_confirm_strictly() -> None:
    assert confirmed(strictly(CAUSE, CONTROL, Ending.FAILED), "FFFFF", "PPPPP") == (True, 10)


@pytest.mark.parametrize(("cause", "control"), [("FFFFP", "PPPPP"), ("FFFFF", "PPPPF")])
def test_one_run_that_disagrees_refutes_strictly(cause: str, control: str) -> None:
    assert not confirmed(strictly(CAUSE, CONTROL, Ending.FAILED), cause, control)[0]


def test_a_run_without_a_result_confirms_nothing() -> None:
    assert confirmed(strictly(CAUSE, CONTROL, Ending.FAILED), "O", "P") == (False, 1)


def test_a_cause_that_fails_most_of_the_time_is_confirmed_by_an_exact_test() -> None:
    answer = confirmed(mostly(CAUSE, CONTROL, Ending.FAILED), "FFFFPFFFFFFF", "PPPPPPPPPPPF")

    assert answer == (True, 24)


def test_a_cause_that_fails_half_of_the_time_is_not() -> None:
    answer = confirmed(mostly(CAUSE, CONTROL, Ending.FAILED), "FFPFPFPFPFPF", "PPPPPPFPPFPP")

    assert answer == (False, 24)


def test_a_cause_that_makes_no_difference_is_given_up_early() -> None:
    assert confirmed(mostly(CAUSE, CONTROL, Ending.FAILED), "FPFPF", "FPFPF") == (False, 10)
