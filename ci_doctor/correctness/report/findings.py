# SPDX-License-Identifier: Apache-2.0
"""The findings of an experiment, each with its evidence and what to do next. Pure."""

import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.correctness import rules
from ci_doctor.correctness.report.differences import (
    TELLING,
    AnswerDifference,
    divergence_lines,
)
from ci_doctor.correctness.report.failed_starts import deciding_failure, remedy_of
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.report.start_findings import start_findings, start_notes
from ci_doctor.correctness.results import Experiment, ExperimentEnding
from ci_doctor.correctness.verdict.compare import explain
from ci_doctor.correctness.verdict.decision import Decision, PermutationTest
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.load.requests import Request
from ci_doctor.model.finding import Evidence, Finding, NextStep, ShellCommand
from ci_doctor.model.verdict import Verdict
from ci_doctor.render import formatting

# Differing answers lead to these verdicts. The others have another reason, whatever the answers.
_ABOUT_ANSWERS = {
    Verdict.REGRESSION,
    Verdict.FLAKY,
    Verdict.INCONCLUSIVE,
    Verdict.NONDETERMINISTIC,
}
_SHOWN = 3
# What to do about a run that no further start decides.
_NOT_BY_STARTS = (
    "No further start of this run can decide it. Look at the answers shown; then run it again, with "
    "more starts (`--max-starts 32`), or make the baseline steadier with `ci-doctor setup-env "
    "--determinism strict`."
)


class Context(Struct, frozen=True, kw_only=True):
    """What the findings refer to.

    `one_request` is the command line that runs one request alone, less its id; `run` the report
    directory as a person would type it.
    """

    requests_file: str
    requests: Sequence[Request]
    one_request: str
    run: str = "ci-doctor-report"


def replay_command(difference: AnswerDifference, context: Context) -> str:
    """The command line that shows one difference again."""
    pair = difference.pair
    words = ["ci-doctor", "correctness", "replay"]
    words += ["--run", context.run]
    words += ["--request", difference.request]
    # Archived starts are not in the run's own samples.
    if not pair.archived:
        words += ["--starts", f"{pair.first},{pair.second}"]
    return shlex.join(words)


def findings(
    experiment: Experiment,
    decision: Decision,
    differences: Sequence[AnswerDifference],
    context: Context,
) -> Iterator[Finding]:
    """The verdict's own finding, then failures, then notes; `differences` are hardest first."""
    if decision.verdict is not Verdict.PASS:
        yield _verdict_finding(experiment, decision, differences, context)
    lines = _lines(context)
    yield from start_findings(experiment, decision, context.requests_file, lines)
    if experiment.ending is ExperimentEnding.BUDGET:
        rule = rules.BUDGET_SPENT
        yield rule.finding("the budget ended before the run was decided", remedy=rule.remedy)
    yield from mended_findings(decision)
    yield from _extended(experiment)
    yield from start_notes(experiment, context.requests)


def mended_findings(decision: Decision) -> Iterator[Finding]:
    """That the candidate never varies where the baseline does, beside a verdict that blames nobody."""
    if decision.mended and decision.verdict in {Verdict.FLAKY, Verdict.INCONCLUSIVE}:
        rule = rules.MENDED
        yield rule.finding(
            f"{_few(decision.mended)}: the baseline differs from itself, and the candidate never does",
            remedy=rule.remedy,
        )


def _extended(experiment: Experiment) -> Iterator[Finding]:
    """That alpha holds for each limit of a run, and not over all of them."""
    limits = experiment.rules.limits
    if len(limits) == 1:
        return
    rule = rules.EXTENDED
    alpha = experiment.rules.alpha
    total = formatting.percent(alpha * len(limits))
    words = " to ".join(map(str, limits))
    yield rule.finding(
        f"the run was extended from {words} starts: a false regression has a probability of at most "
        f"{total}, not {formatting.percent(alpha)}",
        remedy=rule.remedy,
    )


def _lines(context: Context) -> dict[str, int | None]:
    """The line of each request in the requests file; None if the file has no lines."""
    return {request.id: request.line for request in context.requests}


def _verdict_finding(
    experiment: Experiment,
    decision: Decision,
    differences: Sequence[AnswerDifference],
    context: Context,
) -> Finding:
    shown = _shown(decision, differences)
    message = decision.reason
    if shown:
        message = _which(decision, differences)
    lines = _lines(context)
    evidence = []
    for difference in shown:
        excerpt = "\n".join(divergence_lines(difference))
        item = Evidence(
            file=context.requests_file,
            line=lines.get(difference.request),
            excerpt=excerpt,
        )
        evidence.append(item)
    rule = rules.OF_VERDICT[decision.verdict]
    remedy = _remedy(decision, shown, context)
    if decision.verdict is Verdict.FAILED:
        failure = deciding_failure(decision, experiment)
        remedy = remedy_of(failure) if failure else remedy
    return rule.finding(message, evidence=tuple(evidence), remedy=remedy)


def _shown(
    decision: Decision, differences: Sequence[AnswerDifference]
) -> Sequence[AnswerDifference]:
    """The differences that explain the verdict; none if it has another reason."""
    if decision.verdict not in _ABOUT_ANSWERS:
        return ()
    # A candidate that answered nothing at all has no difference to show: its end is the reason.
    if all(each.divergence.hardness is Hardness.MISSING for each in differences):
        return ()
    disputed: set[str] = set()
    if decision.test:
        disputed.update(decision.test.disputed)
    # The sort is stable: among the disputed requests the hardest stay first.
    ordered = sorted(differences, key=lambda each: each.request not in disputed)
    return ordered[:_SHOWN]


def _remedy(
    decision: Decision, shown: Sequence[AnswerDifference], context: Context
) -> NextStep | None:
    """The next step: a command for a difference to look at, else an advice."""
    if decision.verdict is not Verdict.REGRESSION:
        if decision.settle:
            return _settling(decision.settle)
        if decision.is_final:
            return rules.MENDED.remedy if decision.mended else _NOT_BY_STARTS
        return rules.OF_VERDICT[decision.verdict].remedy
    if shown:
        return ShellCommand(replay_command(shown[0], context))
    # The candidate failed, so no recorded answer can be shown: one request has to be sent anew.
    return ShellCommand(f"{context.one_request} ID")


def _settling(settle: str) -> NextStep:
    """The run that would settle it: what it costs as a comment, then its command."""
    cost, separator, command = settle.partition(": ci-doctor ")
    if not separator:
        return settle
    return ShellCommand(f"# {cost}\nci-doctor {command}")


def _which(decision: Decision, differences: Sequence[AnswerDifference]) -> str:
    """The requests that differ, of the most telling kind."""
    if decision.verdict is Verdict.NONDETERMINISTIC or decision.is_final:
        return decision.reason
    if decision.test:
        names = _few(_disputed(decision.test, differences))
        return f"{names}: {_how(decision, differences)}"
    kind = _most_telling(differences)
    of_kind = [each.request for each in differences if each.kind is kind]
    return f"{_few(of_kind)}: {explain(kind)}"


def _how(decision: Decision, differences: Sequence[AnswerDifference]) -> str:
    """How the candidate differs on the requests of the test."""
    assert decision.test is not None  # noqa: S101 - the caller checked
    disputed = set(decision.test.disputed)
    kinds = {each.kind for each in differences if each.request in disputed}
    if kinds == {DifferenceKind.CHANGED}:
        return "no candidate start answers as a baseline start does"
    return "the candidate gives other answers than the baseline, or in another mix"


def _disputed(test: PermutationTest, differences: Sequence[AnswerDifference]) -> Sequence[str]:
    """The disputed requests: the hardest first, if a difference can be shown for any of them."""
    requests = [difference.request for difference in differences]
    shown = [request for request in requests if request in test.disputed]
    return shown or test.disputed


def _most_telling(differences: Sequence[AnswerDifference]) -> DifferenceKind:
    kinds = {each.kind for each in differences}
    return min(kinds, key=TELLING.index)


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    more = len(names) - _SHOWN
    if more > 0:
        return f"{shown} and {more} more"
    return shown
