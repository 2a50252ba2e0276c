# SPDX-License-Identifier: Apache-2.0
"""What a report claims of its tests, recomputed from the attempts that the same report holds.

A suite is played by chance through all stages: tests that fail at some rate, by their order, crash,
are skipped, are run again by a plugin; pytest that stops early or ends with a status of a plugin.
"""

import json
import math
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_doctor.model.outcome import Verdict
from ci_doctor.pytest_runs import explaining
from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind, TestAttempt
from ci_doctor.pytest_runs.explaining import explained, suspects_of
from ci_doctor.pytest_runs.explanation import Explanation, Tally
from ci_doctor.pytest_runs.findings import outcome_of
from ci_doctor.pytest_runs.plan import PytestPlan
from ci_doctor.pytest_runs.result import Circumstances, judge
from ci_doctor.pytest_runs.stages import PytestRequest, TestStages
from ci_doctor.pytest_runs.trial import Ending, FlakyTrial, TrialResult
from tests.support.pytest_sessions import a_plan

PASSED = {"passed", "xfailed", "xpassed"}
FAILED = {"failed", "error", "crashed", "timeout"}
IN_ORDER = {"suite", "rest", "order"}
Test = dict[str, Any]

# --- a suite by chance ---


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """A test: how likely it fails as the first of its process, and behind others."""

    alone: float
    in_order: float
    ends: PytestOutcome = PytestOutcome.FAILED
    is_skipped: bool = False


class World(msgspec.Struct, frozen=True, kw_only=True):
    """A suite: its tests by name. maxfail: of `-x`. retries: of a plugin. status: that a plugin sets.

    narrowed: so many tests are left out by `--lf`. stop: a plugin stops after so many tests.
    """

    tests: dict[str, Played]
    maxfail: int = 0
    retries: int = 0
    status: int | None = None
    narrowed: int = 0
    stop: int | None = None


class Runner:
    """Plays runs of pytest in `world`, in place of one that starts processes."""

    is_interrupted = False
    interrupted_by = None

    def __init__(self, world: World, dice: random.Random) -> None:
        self._world = world
        self._dice = dice
        self._pid = 100

    def run(
        self, plan: PytestPlan, *, is_shown: bool = False, logs: Path | None = None
    ) -> PytestSession:
        assert is_shown is plan.kind.is_of_suite
        assert logs is None
        world, self._pid = self._world, self._pid + 1
        names = [name for name in plan.tests or world.tests if name not in plan.without]
        is_whole = plan.kind is RunKind.SUITE
        if is_whole:
            names = names[world.narrowed :]
        attempts: list[TestAttempt] = []
        failed, stopped, has_died = 0, None, False
        for index, name in enumerate(names, start=1):
            tried = self._tried(plan.kind, name, index)
            attempts += tried
            failed += not tried[-1].is_green
            has_died = tried[-1].outcome in {PytestOutcome.CRASHED, PytestOutcome.LOST}
            if is_whole and failed and 0 < world.maxfail <= failed:
                stopped = "stopping after failures"
            if is_whole and world.stop == index:
                stopped = "a plugin"
            if has_died or stopped:
                break
        status = int(bool(failed)) if stopped != "a plugin" else 2
        is_changed = plan.kind.is_of_suite and world.status is not None
        status = world.status if is_changed and world.status is not None else status
        return PytestSession(
            kind=plan.kind,
            chosen=plan.tests,
            attempts=tuple(attempts),
            exit_code=None if has_died else status,
            signal="SIGSEGV" if has_died else None,
            finished=None if has_died else status,
            is_changed=is_changed,
            stopped=stopped,
            narrowed="--lf" if is_whole and world.narrowed else None,
            collected=tuple(names),
            order={self._pid: tuple(dict.fromkeys(each.test for each in attempts))},
            maxfail=world.maxfail if is_whole else 0,
        )

    def _tried(self, kind: RunKind, name: str, index: int) -> list[TestAttempt]:
        played = self._world.tests[name]
        rate = played.alone if index == 1 else played.in_order
        tried: list[TestAttempt] = []
        for number in range(self._world.retries + 1):
            fails = self._dice.random() < rate
            is_last = not fails or number == self._world.retries
            outcome = PytestOutcome.SKIPPED if played.is_skipped else PytestOutcome.PASSED
            if fails:
                outcome = played.ends
            has_died = outcome in {PytestOutcome.CRASHED, PytestOutcome.LOST}
            phase = "rerun" if fails and not is_last else "failed" if fails else str(outcome)
            tried.append(
                TestAttempt(
                    run=kind,
                    test=name,
                    outcome=outcome,
                    pid=self._pid,
                    index=index,
                    duration_s=None if has_died else 0.1,
                    phases=() if has_died else (("call", phase, 0.1),),
                    message=None if outcome in PASSED else f"AssertionError: {name}",
                )
            )
            if is_last or has_died:
                break
        return tried


class Trials:
    """Plays trials in the same world."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self._world = world
        self._dice = dice

    def run(self, trial: FlakyTrial, error: str | None) -> TrialResult:
        assert error in {"AssertionError", "crash"}
        played = self._world.tests[trial.target]
        rate = played.in_order if trial.before else played.alone
        if played.is_skipped:
            return TrialResult(ending=Ending.OTHER)
        is_failure = self._dice.random() < rate
        return TrialResult(ending=Ending.FAILED if is_failure else Ending.PASSED)


def play(world: World, seed: int, *, reruns: int = 2, explains: bool = False) -> Any:
    """The report of one run: its verdict, summary, findings and facts, as programs read them."""
    dice = random.Random(seed)
    request = PytestRequest(
        args=(),
        environ={},
        directory=Path("/nowhere"),
        reruns=reruns,
        rerun_s=1000.0,
        explain_s=1000.0 if explains else None,
    )
    plan = a_plan()
    runner: Any = Runner(world, dice)

    def explain(_plan: Any, _runner: Any, failures: Any, sessions: Any, **more: Any) -> Any:
        make = Trials(world, dice).run
        return {
            suspect.test: explained(suspect, make, more["budget_s"])
            for suspect in suspects_of(failures, sessions)
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explaining, "explain_failures", explain)
        patch.setattr(TestStages, "_look_for_causes", lambda _: None)
        stages = TestStages(request, plan, runner, Path("/nowhere"), lambda _: None)
        stages.run(None)
        outcome = outcome_of(stages.result(), Path("/nowhere"), None)
    return json.loads(
        msgspec.json.encode(
            {
                "verdict": outcome.verdict,
                "summary": outcome.summary,
                "findings": outcome.findings,
                "facts": outcome.facts,
                "cases": outcome.cases,
            }
        )
    )


# --- claims, recomputed ---


def ended(test: Test, runs: set[str], outcomes: set[str] | None = None) -> int:
    """How many attempts in runs of these kinds ended so."""
    tried = [each for each in test["attempts"] if each["run"] in runs]
    return sum(outcomes is None or each["outcome"] in outcomes for each in tried)


OF_THIS_CODE = {"suite", "rest", "alone", "order", "new"}


def of_failures(test: Test, part: int | None, count: int | None, outcomes: set[str]) -> bool:
    done = ended(test, IN_ORDER | {"alone"})
    ended_so = ended(test, IN_ORDER | {"alone"}, outcomes)
    return done == (count or 1) and ended_so == (done if part is None else part)


def counted(test: Test, runs: set[str], failed: str, done: str, lost: str | None) -> bool:
    expected = (ended(test, runs, FAILED), ended(test, runs), ended(test, runs, {"lost"}))
    return expected == (int(failed), int(done), int(lost or 0))


def alone_with_trials(test: Test, failed: str, done: str) -> bool:
    trials = test["explanation"]["alone"]
    own = ended(test, {"alone"}, FAILED), ended(test, {"alone"})
    return (own[0] + trials["failed"], own[1] + trials["passed"] + trials["failed"]) == (
        int(failed), int(done),
    )  # fmt: skip


LOST = r"(?: \((\d+) without a result\))?"
# Each clause that a report may say of a test, and whether it is true of the attempts.
CLAUSES: dict[str, Any] = {
    rf"failed (\d+) of (\d+) runs{LOST} in the order of the suite": lambda test, *each: counted(
        test, IN_ORDER, *each
    ),
    rf"failed (\d+) of (\d+) runs{LOST} alone": lambda test, *each: counted(test, {"alone"}, *each),
    r"failed (\d+) of (\d+) runs alone, those of the explanation included": alone_with_trials,
    r", and passed (\d+) of (\d+) runs alone": lambda test, passed, done: (
        (ended(test, {"alone"}, PASSED), ended(test, {"alone"})) == (int(passed), int(done))
    ),
    r", which may be chance": lambda test: not test.get("order_dependent"),
    r"; the explanation confirms that its order decides": lambda test: (
        test["explanation"]["with_cause"]["failed"] >= 5
    ),
    r"; the time for reruns was over": lambda test: ended(test, {"alone", "order"}) < 6,
    r"each of (\d+) attempts failed": lambda test, n: of_failures(test, None, int(n), FAILED),
    r"(\d+) of (\d+) attempts failed": lambda test, k, n: of_failures(test, int(k), int(n), FAILED),
    r"its attempt failed": lambda test: of_failures(test, 1, 1, FAILED),
    r"each of (\d+) attempts ended without a result": lambda test, n: of_failures(
        test, None, int(n), {"lost"}
    ),
    r"(\d+) of (\d+) attempts ended without a result": lambda test, k, n: of_failures(
        test, int(k), int(n), {"lost"}
    ),
    r"its attempt ended without a result": lambda test: of_failures(test, 1, 1, {"lost"}),
    r", (\d+) ended without a result": lambda test, n: (
        ended(test, IN_ORDER | {"alone"}, {"lost"}) == int(n)
    ),
    r"failed (\d+) of (\d+) attempts in the suite, and passed the last one": lambda test, k, n: (
        (int(n) - ended(test, {"suite", "rest"}, PASSED | {"skipped"}), int(n))
        == (int(k), ended(test, {"suite", "rest"}))
    ),
    rf"a new test; failed (\d+) of (\d+) runs{LOST}": lambda test, *each: counted(
        test, {"suite", "rest", "new"}, *each
    ),
    r"a new test; it has a result in (\d+) of (\d+) runs": lambda test, k, n: (
        int(k) == 1 + ended(test, {"new"}) < int(n)
    ),
    r"; it passes at the base": lambda test: (
        ended(test, {"baseline"}, PASSED) > 0 and not ended(test, {"baseline"}, FAILED | {"lost"})
    ),
    r"; it fails as (\d+) others do, which ran again in its place": lambda test, n: (
        int(n) == len(test["alike"]) and not ended(test, {"alone"})
    ),
    r"it was collected, and has no result": lambda test: not ended(test, {"suite", "rest"}),
    r"passed": lambda test: not ended(test, OF_THIS_CODE, FAILED | {"lost"}),
}


def untrue(test: Test) -> list[str]:
    """The clauses about `test` that its attempts contradict, and text that is no known clause."""
    text = test["why"]
    wrong: list[str] = []
    while text:
        matches = [(re.match(each, text), holds) for each, holds in CLAUSES.items()]
        longest = max(matches, key=lambda each: each[0].end() if each[0] else -1)
        if longest[0] is None:
            return [*wrong, text]
        if not longest[1](test, *longest[0].groups()):
            wrong.append(longest[0].group())
        text = text[longest[0].end() :]
    return wrong


def both(test: Test, runs: set[str], trials: dict[str, int] | None = None) -> bool:
    """Whether it passed, and did not pass, under one condition."""
    extra = trials or {"passed": 0, "failed": 0}
    passed = ended(test, runs, PASSED) + extra["passed"]
    return bool(passed) and bool(ended(test, runs, FAILED | {"lost"}) + extra["failed"])


def contradictions(report: Any) -> list[str]:
    """What the report says and its own facts do not."""
    tests = {test["test"]: test for test in report["facts"]["tests"]}
    wrong = [f"{name}: {each}" for name, test in tests.items() for each in untrue(test)]
    wrong += [each for test in tests.values() for each in _of_verdict(test, tests)]
    for finding in report["findings"]:
        if finding["rule"].startswith("test-run/flaky-kind"):
            text = finding["summary"]
            wrong += [text] * (not _is_explained(text, tests[text.partition(": ")[0]]))
    return [*wrong, *_of_counts(report)]


def _of_verdict(test: Test, tests: dict[str, Test]) -> list[str]:
    name, verdict, explanation = test["test"], test["verdict"], test.get("explanation") or {}
    is_flaky = both(test, {"alone"}, explanation.get("alone")) or both(test, IN_ORDER)
    # A test that skips itself at times, and fails at others, has both endings too.
    is_skipped = ended(test, IN_ORDER, {"skipped"}) and ended(test, IN_ORDER, FAILED | {"lost"})
    wrong = []
    if verdict == "flaky" and not is_flaky and not is_skipped:
        wrong.append(f"{name}: flaky, and under no condition it both passed and failed")
    if verdict in {"failed", "void"} and is_flaky:
        wrong.append(f"{name}: {verdict}, although it passed and failed under one condition")
    in_turns = min(ended(test, {"order"}, FAILED), ended(test, {"alone"}, PASSED))
    confirmed = (explanation.get("with_cause") or {}).get("failed", 0)
    if test.get("order_dependent") and in_turns < 3 and confirmed < 5:
        wrong.append(f"{name}: its order is blamed")
    wrong += [
        f"{name}: {other} did not fail in its place"
        for other in test.get("alike", ())
        if not ended(tests[other], {"alone"}) or ended(tests[other], {"alone"}, PASSED)
    ]
    return wrong


def _of_counts(report: Any) -> list[str]:
    facts = report["facts"]
    verdicts = Counter(each["verdict"] for each in facts["tests"] if each["verdict"] != "pass")
    counts = Counter(facts["counts"])
    never_began = sum(not each["attempts"] for each in facts["tests"])
    wrong = []
    if counts.total() - never_began != len(report["cases"]):
        wrong.append(f"{counts} are not all cases")
    for verdict in {*verdicts, *counts} - {"pass", "skipped", "void"}:
        wrong += [f"{counts[verdict]} {verdict}"] * (verdicts[verdict] != counts[verdict])
    names = {"passed": "pass", "without": "void"}
    said = re.findall(r"(?:^|, )(\d+) (failed|flaky|passed|skipped|without)", report["summary"])
    for number, word in said:
        wrong += [report["summary"]] * (counts[names.get(word, word)] != int(number))
    return wrong


def _is_explained(text: str, test: Test) -> bool:
    """Whether the counts and limits in the sentence of an explanation are those of its facts."""
    facts = test["explanation"]
    plain = facts.get("plain_failures", 0), facts.get("plain_runs", 0)
    ending = "passed" if "passed in" in text else "failed"
    pattern = r"(failed|passed)? ?in (\d+) of (\d+) runs (\w+)"
    for word, k, n, where in re.findall(pattern, text):
        # The second count of a sentence is of the same ending, without the culprit.
        tally = facts.get("with_cause") if word else facts.get("without")
        shown = plain if where == "alone" else tally and (tally[ending], tally["runs"])
        if shown != (int(k), int(n)):
            return False
    if "in all of" in text and plain[0] not in {0, plain[1]}:
        return False
    if "it failed in each attempt" in text:
        trials = facts.get("alone") or {}
        return not ended(test, OF_THIS_CODE, PASSED) and not trials.get("passed")
    return all(_is_limit(*each, *plain) for each in _limits(text))


def _limits(text: str) -> list[tuple[float, float, bool]]:
    """Rates in a sentence, the share of the tail beyond each, and whether it is an upper one."""
    limits = [(float(rate) / 100, 0.05, True) for rate in re.findall(r"rate above ([\d.]+)%", text)]
    for lower, upper in re.findall(r"from ([\d.]+)% to ([\d.]+)%", text):
        limits += [(float(lower) / 100, 0.025, False), (float(upper) / 100, 0.025, True)]
    return limits


def _is_limit(rate: float, tail: float, is_upper: bool, failures: int, runs: int) -> bool:
    """Whether so few failures (so many) have that probability at `rate`, as it is rounded."""

    def at(rate: float) -> float:
        counts = range(failures + 1) if is_upper else range(failures, runs + 1)
        return sum(math.comb(runs, k) * rate**k * (1 - rate) ** (runs - k) for k in counts)

    low, high = at(max(0.0, rate - 0.0006)), at(min(1.0, rate + 0.0006))
    return min(low, high) - 1e-9 <= tail <= max(low, high) + 1e-9


# --- properties ---

rates = st.sampled_from([0.0, 0.0, 0.0, 1.0, 0.05, 0.3, 0.5, 0.9])
endings = st.sampled_from([PytestOutcome.FAILED] * 4 + [PytestOutcome.CRASHED, PytestOutcome.LOST])
played_tests = st.builds(
    Played,
    alone=rates,
    in_order=rates,
    ends=endings,
    is_skipped=st.sampled_from([False, False, False, True]),
)
worlds = st.builds(
    World,
    tests=st.lists(played_tests, min_size=1, max_size=9).map(
        lambda tests: {f"test_a.py::test_{number}": each for number, each in enumerate(tests)}
    ),
    maxfail=st.sampled_from([0, 0, 1, 2]),
    retries=st.sampled_from([0, 0, 1]),
    status=st.sampled_from([None, None, None, 1, 9]),
    narrowed=st.sampled_from([0, 0, 0, 1]),
    stop=st.sampled_from([None, None, None, 2]),
)


@settings(max_examples=100, deadline=None)
@given(world=worlds, seed=st.integers(0, 2**32), reruns=st.integers(0, 3), explains=st.booleans())
def test_no_claim_of_a_report_contradicts_its_attempts(
    world: World, seed: int, reruns: int, explains: bool
) -> None:
    report = play(world, seed, reruns=reruns, explains=explains)

    assert contradictions(report) == []
    if report["verdict"] in {"pass", "flaky"}:
        # Green: each test of the suite has a result, and no status of a plugin was dropped.
        assert len(report["cases"]) == len(world.tests)
        assert "void" not in report["facts"]["counts"]
        # A crash takes away what a plugin would have said.
        died = [each for each in report["facts"]["sessions"] if each["how"] == "SIGSEGV"]
        assert world.status is None or died


KINDS = [RunKind.SUITE, RunKind.REST, RunKind.ALONE, RunKind.ORDER, RunKind.NEW, RunKind.BASELINE]
run_attempts = st.builds(
    lambda kind, outcome, pid: TestAttempt(run=kind, test="t", outcome=outcome, pid=pid),
    st.sampled_from(KINDS),
    st.sampled_from(PytestOutcome),
    st.sampled_from([None, 1, 2]),
)


@settings(max_examples=200, deadline=None)
@given(
    runs=st.lists(run_attempts, max_size=9).map(tuple),
    trials=st.builds(Tally, passed=st.integers(0, 3), failed=st.integers(0, 3)),
    new=st.booleans(),
    alike=st.booleans(),
)
def test_no_clause_about_a_test_contradicts_its_attempts(
    runs: tuple[TestAttempt, ...], trials: Tally, new: bool, alike: bool
) -> None:
    in_suite = [each.is_green for each in runs if each.run.is_of_suite]
    if all(in_suite):
        # Only what failed there runs alone.
        runs = tuple(each for each in runs if each.run is not RunKind.ALONE)
    spared = alike and not any(each.run is RunKind.ALONE for each in runs)
    known = Circumstances(
        explained={"t": Explanation(runs=0, duration_s=0.0, alone=trials)},
        new={"t"} if new else (),
        new_runs=4,
        alike={"t": ("u", "v")} if spared else {},
    )

    judged = judge("t", runs, known)

    test = {
        "why": judged.why,
        "attempts": [{"run": each.run, "outcome": each.outcome} for each in runs],
        "alike": judged.alike,
        "order_dependent": judged.order_dependent,
        "explanation": {"alone": {"passed": trials.passed, "failed": trials.failed}},
    }
    assert untrue(test) == []
    if judged.verdict is Verdict.PASS:
        assert not ended(test, {"suite", "rest"}, {"lost"})
    if judged.verdict is Verdict.REGRESSION:
        assert ended(test, {"baseline"}, PASSED)


@pytest.mark.gate(1)
@pytest.mark.parametrize("rate", [0.3, 0.5, 0.7])
def test_coins_are_red_as_rarely_as_the_page_says(rate: float) -> None:
    """Red after three failures, or (at most 1 in 64) by an order that seems to decide."""
    coin = Played(alone=rate, in_order=rate)
    world = World(tests={"a.py::a": Played(alone=0.0, in_order=0.0), "a.py::coin": coin})
    runs = 2000
    reports = [play(world, seed) for seed in range(runs)]
    red = [each for each in reports if each["verdict"] not in {"pass", "flaky"}]
    blamed = [each for each in red if each["facts"]["tests"][0].get("order_dependent")]

    expected = rate**3 + rate * (1 - rate) * (rate * (1 - rate)) ** 2 * rate
    spread = 4 * math.sqrt(expected / runs)
    assert len(red) / runs <= expected + spread
    # Of the coins that failed in the suite, as the level of a kind promises.
    failed = [each for each in reports if each["verdict"] != "pass"]
    assert len(blamed) / len(failed) <= 0.02


def test_coins_that_are_explained_are_red_more_rarely_still() -> None:
    coin = Played(alone=0.5, in_order=0.5)
    world = World(tests={"a.py::a": Played(alone=0.0, in_order=0.0), "a.py::coin": coin})

    reports = [play(world, seed, explains=True) for seed in range(200)]

    assert [each for report in reports for each in contradictions(report)] == []
    named = [
        finding
        for report in reports
        for finding in report["findings"]
        if finding["rule"] == "test-run/flaky-kind"
    ]
    assert len(named) <= 0.024 * 200 + 4 * math.sqrt(0.024 * 200)
