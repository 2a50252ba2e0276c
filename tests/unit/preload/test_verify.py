# SPDX-License-Identifier: Apache-2.0
"""What the checks of a shim and the runs of a race say, given what was seen."""

import venv
from pathlib import Path

import pytest

from ci_doctor.model.facts.preparing import CheckOutcome, ShimCheck, StatusFacts, VerifyFacts
from ci_doctor.model.outcome import CaseOutcome, Severity, Verdict
from ci_doctor.preload.interpreter import Interpreters, Target
from ci_doctor.preload.preload_rule import Preload, PreloadRule
from ci_doctor.preload.trial import ObservedStart, Played, RaceRun, judge_trial, read_run
from ci_doctor.preload.verify import (
    UNPROVEN,
    findings_of,
    judge_armed,
    judge_race,
    status,
    verdict_of,
    verify,
)
from ci_doctor.system.processes.limited_runs import SeparateRun

TARGET = Target(
    python=Path("/venv/bin/python"),
    version=(3, 12, 0),
    site_dir=Path("/s"),
    externally_managed=False,
    writable=True,
)
ARMED = ObservedStart(armed=1, runtime=False, rules={"serve": (("lazy", ("Config",)),)})
BARE = ObservedStart(armed=0, runtime=False, rules=None)


def ran(exit_code: int | None, stdout: str = "", stderr: str = "") -> SeparateRun:
    return SeparateRun(exit_code=exit_code, stdout=stdout, stderr=stderr, duration_s=0)


def check(outcome: CheckOutcome) -> ShimCheck:
    rule = None if outcome is CheckOutcome.PASSED else UNPROVEN.id
    return ShimCheck(
        python="/p", name="race", outcome=outcome, sentence="it is so", rule=rule, evidence="seen"
    )


@pytest.mark.parametrize(
    ("outcomes", "reached"),
    [
        ([], Verdict.VOID),
        (["passed", "not-needed"], Verdict.PASS),
        (["passed", "void"], Verdict.VOID),
        (["void", "failed", "passed"], Verdict.FAILED),
    ],
)
def test_verdict_is_the_worst_of_the_checks(outcomes: list[str], reached: Verdict) -> None:
    assert verdict_of([check(CheckOutcome(outcome)) for outcome in outcomes]) is reached


def test_only_what_did_not_pass_is_a_finding() -> None:
    found = findings_of([check(outcome) for outcome in CheckOutcome])

    assert [finding.severity for finding in found] == [
        Severity.ERROR,
        Severity.NOTE,
        Severity.WARNING,
    ]
    assert found[0].evidence[0].excerpt == "seen"


@pytest.mark.parametrize(
    ("ordinary", "isolated", "said"),
    [
        (BARE, ARMED, "an ordinary start of /venv/bin/python arms the shim 0 times"),
        (ARMED, BARE, "a start with -I of /venv/bin/python arms the shim 0 times"),
        (ObservedStart(armed=2, runtime=False, rules={}), ARMED, "2 times, not once"),
        (ObservedStart(armed=1, runtime=True, rules={}), ARMED, "already preloads"),
        (
            ObservedStart(armed=1, runtime=False, rules={}, trace="preloading"),
            ARMED,
            "already preloads",
        ),
    ],
)
def test_start_that_does_not_arm_once_and_idle_fails(
    ordinary: ObservedStart, isolated: ObservedStart, said: str
) -> None:
    judged = judge_armed(TARGET, ordinary, isolated, BARE)

    assert judged.outcome is CheckOutcome.FAILED
    assert said in judged.sentence


def test_start_that_is_as_it_should_be_says_what_is_not_covered() -> None:
    judged = judge_armed(TARGET, ARMED, ARMED, BARE)

    assert judged.outcome is CheckOutcome.PASSED
    assert judged.sentence.endswith("-S is not covered")


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


def judged(control: tuple[RaceRun, ...], with_shim: tuple[RaceRun, ...]) -> tuple[str, str]:
    played = Played(first="lazy", second="lazy", control=control, with_shim=with_shim)
    check = judge_race(PYTHON, RULE, PRELOAD, [played])
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
    ("control", "why"),
    [
        ((WON, WON), "looks again after waiting"),
        ((RaceRun(executed=True),) * 2, "does not replace itself"),
        ((SHIM, SHIM), "is loaded already when serve runs"),
    ],
    ids=["fixed-interpreter", "plain", "loaded-before"],
)
def test_control_that_never_fails_says_why_and_that_the_shim_can_go(
    control: tuple[RaceRun, ...], why: str
) -> None:
    outcome, sentence = judged(control, (SHIM, SHIM))

    assert outcome == "not-needed"
    assert "0 of 2 runs" in sentence
    assert why in sentence


def test_remedy_can_be_pasted() -> None:
    played = Played(first="lazy", second="lazy", control=(WON,), with_shim=(SHIM,))

    check = judge_race(PYTHON, RULE, PRELOAD, [played])

    assert check.remedy == "remove the shim: ci-doctor preload remove --python '/a venv/bin/python'"


def test_race_of_another_pair_of_the_rule_is_named() -> None:
    rule = PreloadRule(trigger="serve", preloads=(PRELOAD, Preload(module="other")))
    alone = Played(first="lazy", second="lazy", control=(WON,), with_shim=(SHIM,))
    pair = Played(first="lazy", second="other", control=(LOST,), with_shim=(SHIM,))

    check = judge_race(PYTHON, rule, PRELOAD, [alone, pair])

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
        (ran(None), "did not end within 9 s"),
        (ran(-11, "", "Fatal\n"), "ended with exit code -11: Fatal"),
        (ran(0, "chatter"), "ended with exit code 0: chatter"),
        (ran(0, 'chatter\n{"executed": true, "error": "E: x"}\n'), "E: x"),
    ],
    ids=["hangs", "signal", "says-nothing", "error"],
)
def test_run_that_says_nothing_is_an_error_of_its_own(answer: SeparateRun, error: str) -> None:
    run = read_run(answer, "told", 9.0)

    assert (run.executed, run.error, run.trace) == (True, error, "told")


def test_without_a_shim_nothing_is_proven(tmp_path: Path) -> None:
    venv.create(tmp_path / "v", symlinks=True)
    outcome = verify(Interpreters(venvs=(str(tmp_path / "v"),)), environ={})
    assert (outcome.verdict, outcome.error) == (Verdict.VOID, None)
    assert [finding.rule for finding in outcome.findings] == ["preload/unproven"]
    assert [case.outcome for case in outcome.cases] == [CaseOutcome.ERROR]
    assert isinstance(outcome.facts, VerifyFacts)
    assert [check.outcome for check in outcome.facts.checks] == ["void"]


def test_no_interpreter_could_be_examined(tmp_path: Path) -> None:
    outcome = verify(Interpreters(venvs=(str(tmp_path / "gone"),)), environ={})
    assert outcome.verdict is None
    assert outcome.summary == "no interpreter could be examined"
    assert isinstance(outcome.facts, VerifyFacts)
    assert [each.refused.exit_code for each in outcome.facts.refused] == [2]


def test_an_environment_without_a_shim_is_not_judged(tmp_path: Path) -> None:
    venv.create(tmp_path / "v", symlinks=True)
    outcome = status(Interpreters(venvs=(str(tmp_path / "v"),)), environ={})
    assert (outcome.verdict, outcome.error) == (None, None)
    assert outcome.summary == "a shim is installed in 0 of 1 interpreters"
    assert isinstance(outcome.facts, StatusFacts)
    (shim,) = outcome.facts.shims
    assert (shim.state, shim.installed, shim.rules) == ("asked", False, ())
    assert set(shim.files.values()) == {"absent"}
    assert shim.start_up is not None
    assert any(row.label == "no rule" for row in outcome.tables[0].rows)


@pytest.mark.parametrize(
    ("exit_code", "stdout", "rule", "severity", "said"),
    [
        pytest.param(None, "", "preload/hangs", Severity.ERROR, "longer than 9 s", id="time-limit"),
        pytest.param(-11, "", "preload/crashes", Severity.ERROR, "SIGSEGV", id="signal"),
        pytest.param(-50, "", "preload/crashes", Severity.ERROR, "signal 50", id="signal-without-a-name"),
        pytest.param(3, "", "preload/crashes", Severity.ERROR, "exit code 3", id="os-exit"),
        pytest.param(0, "chatter", "preload/crashes", Severity.ERROR, "exit code 0", id="os-exit-0"),
        pytest.param(
            0, '\n{"is_installed": true, "error": "RuntimeError: no GPU"}\n', "preload/fails-now", Severity.WARNING, "no GPU",
            id="raises",
        ),
        pytest.param(
            0, '\n{"is_installed": false, "error": null}\n', "preload/not-installed", Severity.NOTE, "not installed", id="absent"
        ),
    ],
)  # fmt: skip
def test_trial_is_judged(
    exit_code: int | None, stdout: str, rule: str, severity: Severity, said: str
) -> None:
    answer = ran(exit_code, stdout, "last words\n")
    finding = judge_trial(TARGET, [Preload(module="torch")], answer, 9.0)
    assert finding is not None
    assert (finding.rule, finding.severity) == (rule, severity)
    assert said in finding.summary
    assert "torch" in finding.summary
    assert not finding.summary.endswith(".")


def test_trial_that_went_well_is_no_finding() -> None:
    answer = ran(0, 'chatter\n{"is_installed": true, "error": null}\n', "a warning")
    assert judge_trial(TARGET, [Preload(module="torch")], answer, 9.0) is None
