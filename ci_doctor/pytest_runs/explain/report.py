# SPDX-License-Identifier: Apache-2.0
"""From explanations to findings and facts. Pure."""

from collections.abc import Callable

from ci_doctor.model.binomial import lower_limit, upper_limit
from ci_doctor.model.facts.pytest import ExplanationFacts, TallyFacts
from ci_doctor.model.finding import Evidence, Finding, ShellCommand
from ci_doctor.pytest_runs.explain import rules
from ci_doctor.pytest_runs.explain.explanation import ExplainedSuspect, Explanation, TrialTally
from ci_doctor.pytest_runs.explain.kinds import MEANINGS, FlakyKind
from ci_doctor.pytest_runs.explain.trial import Ending, FlakyTrial

CONFIDENCE = 0.95
UNSEARCHED = (
    "the time was over before it was known what the culprit leaves, which may be of another kind"
)
CommandOf = Callable[[FlakyTrial], str]

VICTIMS = frozenset(
    {
        FlakyKind.STATE,
        FlakyKind.ENVIRONMENT,
        FlakyKind.DIRECTORY,
        FlakyKind.CONCURRENCY,
        FlakyKind.PROCESS,
        FlakyKind.FILE,
        FlakyKind.IMPORT,
    }
)


def explained_finding(explained: ExplainedSuspect, command_of: CommandOf) -> Finding:
    """The finding about one test; `command_of` gives the shell command of a trial."""
    explanation = explained.explanation
    after = f"{explained.trials} runs in {explained.duration_s:.0f} s"
    if explanation.kind is None or explanation.cause is None:
        return rules.NO_KIND.finding(
            f"{explanation.test}: {nothing_found(explanation)}", evidence=(Evidence(excerpt=after),)
        )
    meaning = MEANINGS[explanation.kind]
    evidence = [
        Evidence(excerpt=meaning.meaning),
        *(Evidence(excerpt=each) for each in explanation.left),
    ]
    if not explanation.is_searched:
        evidence.append(Evidence(excerpt=UNSEARCHED))
    control = "" if explanation.control is None else command_of(explanation.control)
    if control:
        evidence.append(
            Evidence(excerpt=f"it {_word(explanation.expected.opposite)} by: {control}")
        )
    evidence.append(Evidence(excerpt=f"mend: {meaning.mend}"))
    evidence.append(Evidence(excerpt=after))
    return rules.KIND.finding(
        f"{explanation.test}: {_sentence(explained, explanation.kind)}",
        evidence=tuple(evidence),
        remedy=ShellCommand(command_of(explanation.cause)),
    )


def explanation_facts(explained: ExplainedSuspect, command_of: CommandOf) -> ExplanationFacts:
    """The same for programs."""
    explanation = explained.explanation
    return ExplanationFacts(
        kind=explanation.kind,
        culprit=explanation.culprit or None,
        left=explanation.left,
        reproduce=None if explanation.cause is None else command_of(explanation.cause),
        control=None if explanation.control is None else command_of(explanation.control),
        runs=explained.trials,
        duration_s=round(explained.duration_s, 3),
        plain_runs=explanation.plain_runs,
        plain_failures=explanation.plain_failures,
        is_searched=explanation.is_searched,
        reason=explanation.reason,
        alone=_tally_facts(explained.alone),
        with_cause=_tally_facts(explained.with_cause),
        without=_tally_facts(explained.without),
    )


def _tally_facts(tally: TrialTally) -> TallyFacts | None:
    if not tally.runs:
        return None
    return TallyFacts(runs=tally.runs, passed=tally.passed, failed=tally.failed)


def _sentence(explained: ExplainedSuspect, kind: FlakyKind) -> str:
    """The kind and its evidence: how many runs with the culprit and without it ended how."""
    culprit = explained.explanation.culprit
    there, other = explained.with_cause, explained.without
    if kind is FlakyKind.BRITTLE:
        return (
            f"{kind}: it passed in {there.passed} of {there.runs} runs after {culprit}, "
            f"and in {other.passed} of {other.runs} without it"
        )
    after = f"with {culprit}"
    if kind is FlakyKind.EARLIER_RUN:
        after = "after an earlier run of itself"
    elif kind in VICTIMS:
        after = f"after {culprit}"
    return (
        f"{kind}: it failed in {there.failed} of {there.runs} runs {after}, "
        f"and in {other.failed} of {other.runs} otherwise"
    )


def _word(ending: Ending) -> str:
    return "passes" if ending is Ending.PASSED else "fails"


def nothing_found(explanation: Explanation) -> str:
    """What is known if no condition decides the ending: how far the search came, and the rate."""
    if explanation.reason is not None:
        return f"not explained: {explanation.reason}"
    searched = "no condition decides how it ends"
    if not explanation.is_searched:
        searched = (
            "the time was over before all conditions were tried, and none is confirmed so far"
        )
    return f"{searched}; {_rate(explanation.plain_failures, explanation.plain_runs)}"


def _rate(failures: int, runs: int) -> str:
    """The failure rate that the runs alone, with nothing controlled, leave possible."""
    if not runs:
        return "no time was left to count failures"
    if failures == runs:
        return f"it failed in all of {runs} runs alone"
    if not failures:
        upper = upper_limit(0, runs, 1 - CONFIDENCE)
        return (
            f"it passed in all of {runs} runs alone, which excludes a failure rate above {upper:.1%} "
            f"({CONFIDENCE:.0%} confidence)"
        )
    lower = lower_limit(failures, runs, (1 - CONFIDENCE) / 2)
    upper = upper_limit(failures, runs, (1 - CONFIDENCE) / 2)
    return (
        f"it failed in {failures} of {runs} runs alone, a rate from {lower:.1%} to {upper:.1%} "
        f"({CONFIDENCE:.0%} confidence)"
    )
