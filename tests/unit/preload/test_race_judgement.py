# SPDX-License-Identifier: Apache-2.0
"""What the runs of a race say together."""

from pathlib import Path

import pytest

from ci_doctor.preload.checks import CheckOutcome
from ci_doctor.preload.interpreter import Answer
from ci_doctor.preload.preload_rule import Preload, PreloadRule
from ci_doctor.preload.race_judgement import Played, RaceRun, judge_race
from ci_doctor.preload.race_run import read_run

PRELOAD = Preload(module="lazy", attributes=("Config",))
RULE = PreloadRule(trigger="serve", preloads=(PRELOAD,))
PYTHON = Path("/a venv/bin/python")
LOST = RaceRun(
    executed=True,
    error="ImportError: cannot import name 'Config'",
    traceback="Traceback",
    replaced=True,
)
WON = RaceRun(executed=True, replaced=True)
TRACE = "ci-doctor preload: [7] serve: preloaded lazy (Config) in 0.1 s\n"
SHIM = RaceRun(executed=True, trace=TRACE, loaded_before=True)


def judged(
    control: tuple[RaceRun, ...], with_shim: tuple[RaceRun, ...], *, exposed: bool = True
) -> tuple[str, str]:
    played = Played(first="lazy", second="lazy", control=control, with_shim=with_shim)
    check = judge_race(RULE, PRELOAD, [played], exposed=exposed, python=PYTHON)
    return str(check.outcome), check.sentence


def test_race_that_is_always_lost_without_and_never_with_the_shim_is_proven() -> None:
    assert judged((LOST,) * 3, (SHIM,) * 3) == (
        "passed",
        "lazy: lost in 3 of 3 runs without the shim, in 0 of 3 with it",
    )


def test_mixed_control_says_how_often() -> None:
    outcome, sentence = judged((LOST, WON, WON), (SHIM,) * 3)

    assert outcome == "passed"
    assert "lost in 1 of 3 runs without the shim" in sentence
    assert "a matter of chance" in sentence


@pytest.mark.parametrize("control", [(LOST, LOST), (WON, WON)], ids=["lost", "won"])
def test_one_failure_with_the_shim_is_a_failure(control: tuple[RaceRun, ...]) -> None:
    outcome, sentence = judged(control, (SHIM, LOST))

    assert (outcome, "with the shim 1 of 2 runs fail: ImportError" in sentence) == ("failed", True)


def test_run_that_goes_well_without_a_preload_is_a_failure() -> None:
    outcome, sentence = judged((LOST, LOST), (SHIM, WON))

    assert (outcome, sentence) == (
        "failed",
        "lazy: in 1 of 2 runs the shim did not preload it before serve",
    )


@pytest.mark.parametrize(
    ("control", "exposed", "why"),
    [
        ((WON, WON), False, "looks again after waiting"),
        ((WON, WON), True, "found in what was there before"),
        ((RaceRun(executed=True),) * 2, True, "does not replace itself"),
        ((SHIM, SHIM), True, "is loaded already when serve runs"),
    ],
    ids=["fixed-interpreter", "not-missed", "plain", "loaded-before"],
)
def test_control_that_never_fails_says_why_and_that_the_shim_can_go(
    control: tuple[RaceRun, ...], exposed: bool, why: str
) -> None:
    outcome, sentence = judged(control, (SHIM, SHIM), exposed=exposed)

    assert outcome == "not-needed"
    assert "0 of 2 runs" in sentence
    assert why in sentence


def test_remedy_can_be_pasted() -> None:
    played = Played(first="lazy", second="lazy", control=(WON,), with_shim=(SHIM,))

    check = judge_race(RULE, PRELOAD, [played], exposed=False, python=PYTHON)

    assert check.remedy == "remove the shim: ci-doctor preload remove --python '/a venv/bin/python'"


def test_race_of_another_pair_of_the_rule_is_named() -> None:
    rule = PreloadRule(trigger="serve", preloads=(PRELOAD, Preload(module="other")))
    alone = Played(first="lazy", second="lazy", control=(WON,), with_shim=(SHIM,))
    pair = Played(first="lazy", second="other", control=(LOST,), with_shim=(SHIM,))

    check = judge_race(rule, PRELOAD, [alone, pair], exposed=True, python=PYTHON)

    assert check.outcome is CheckOutcome.PASSED
    assert check.sentence.startswith("other while a thread imports lazy: lost in 1 of 1")


def test_trigger_that_was_loaded_before_or_cannot_be_proves_nothing() -> None:
    there, broken = RaceRun(loaded_before=True), RaceRun(error="ImportError: no parent")
    assert judged((there,), (there,))[0] == "void"
    assert judged((broken,), (broken,))[0] == "void"


def test_trigger_that_another_finder_serves_is_a_failure() -> None:
    assert judged((RaceRun(),), (RaceRun(),))[0] == "failed"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(exit_code=None, stdout="", stderr=""), "did not end within 9 s"),
        (Answer(exit_code=-11, stdout="", stderr="Fatal\n"), "ended with exit code -11: Fatal"),
        (
            Answer(exit_code=0, stdout="chatter", stderr=""),
            "ended with exit code 0: exit code 0, nothing on stderr",
        ),
        (
            Answer(exit_code=0, stdout='chatter\n{"executed": true, "error": "E: x"}\n', stderr=""),
            "E: x",
        ),
    ],
    ids=["hangs", "signal", "says-nothing", "error"],
)
def test_run_that_says_nothing_is_an_error_of_its_own(answer: Answer, error: str) -> None:
    run = read_run(answer, "told", 9.0)

    assert (run.executed, run.error, run.trace) == (True, error, "told")
