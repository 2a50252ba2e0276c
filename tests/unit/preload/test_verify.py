# SPDX-License-Identifier: Apache-2.0
"""What the checks of a shim say, given what was seen."""

from pathlib import Path

import pytest

from ci_doctor.model.finding import Severity
from ci_doctor.model.verdict import Verdict
from ci_doctor.preload import rules
from ci_doctor.preload.armed import ArmedStart, judge_armed, judge_cost
from ci_doctor.preload.checks import Check, CheckOutcome, findings, verdict
from ci_doctor.preload.preload_rule import parse_rule
from ci_doctor.preload.race_judgement import RaceRun
from ci_doctor.preload.target import Target
from ci_doctor.preload.verify import judge_child, judge_failing

TARGET = Target(
    python=Path("/venv/bin/python"),
    version=(3, 12, 0),
    site_dir=Path("/s"),
    externally_managed=False,
    writable=True,
)
RULE = parse_rule("serve=lazy:Config")
ARMED = ArmedStart(armed=1, runtime=False, rules={"serve": (("lazy", ("Config",)),)})
BARE = ArmedStart(armed=0, runtime=False, rules=None)
FIRST = RaceRun(executed=True, error="RuntimeError: first", trace="serve: failed to preload lazy")


def check(outcome: CheckOutcome) -> Check:
    return Check(
        name="race", outcome=outcome, sentence="it is so", rule=rules.UNPROVEN, evidence="seen"
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
    assert verdict(check(CheckOutcome(outcome)) for outcome in outcomes) is reached


def test_only_what_did_not_pass_is_a_finding() -> None:
    found = findings(check(outcome) for outcome in CheckOutcome)

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
        (ArmedStart(armed=2, runtime=False, rules={}), ARMED, "2 times, not once"),
        (ArmedStart(armed=1, runtime=True, rules={}), ARMED, "already preloads"),
        (
            ArmedStart(armed=1, runtime=False, rules={}, trace="preloading"),
            ARMED,
            "already preloads",
        ),
    ],
)
def test_start_that_does_not_arm_once_and_idle_fails(
    ordinary: ArmedStart, isolated: ArmedStart, said: str
) -> None:
    judged = judge_armed(TARGET, ordinary, isolated, BARE)

    assert judged.outcome is CheckOutcome.FAILED
    assert said in judged.sentence


def test_start_that_is_as_it_should_be_says_what_is_not_covered() -> None:
    judged = judge_armed(TARGET, ARMED, ARMED, BARE)

    assert judged.outcome is CheckOutcome.PASSED
    assert judged.sentence.endswith("-S is not covered")


@pytest.mark.parametrize(
    ("cost_us", "outcome"),
    [
        (242, CheckOutcome.PASSED),
        (5_000, CheckOutcome.PASSED),
        (5_001, CheckOutcome.FAILED),
        (None, CheckOutcome.VOID),
    ],
)
def test_start_cost_has_a_limit(cost_us: int | None, outcome: CheckOutcome) -> None:
    judged = judge_cost(TARGET, cost_us)

    assert judged.outcome is outcome
    assert cost_us is None or f"{cost_us} us" in judged.sentence


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (RaceRun(executed=False, error="RuntimeError: first"), "stops it: RuntimeError: first"),
        (RaceRun(executed=True, error="RuntimeError: first"), "the shim did not preload"),
        (
            RaceRun(executed=True, error="ImportError: second", trace=FIRST.trace),
            "something else: ImportError: second",
        ),
        (RaceRun(executed=True, trace=FIRST.trace), "something else: nothing"),
    ],
    ids=["stops-the-trigger", "idle", "not-retold", "swallowed"],
)
def test_failing_preload_must_be_survived_and_retold(run: RaceRun, said: str) -> None:
    assert judge_failing(RULE, {"RuntimeError": FIRST}).outcome is CheckOutcome.PASSED

    judged = judge_failing(RULE, {"RuntimeError": run})

    assert judged.outcome is CheckOutcome.FAILED
    assert said in judged.sentence


@pytest.mark.parametrize(
    ("run", "preloaded", "outcome"),
    [
        (RaceRun(executed=True), True, CheckOutcome.PASSED),
        (RaceRun(executed=True), False, CheckOutcome.FAILED),
        (RaceRun(executed=True, error="ImportError: x"), True, CheckOutcome.FAILED),
    ],
)
def test_spawned_child_must_preload_and_win(
    run: RaceRun, preloaded: bool, outcome: CheckOutcome
) -> None:
    assert judge_child(RULE, run, preloaded=preloaded).outcome is outcome
