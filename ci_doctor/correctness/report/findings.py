# SPDX-License-Identifier: Apache-2.0
"""The findings of an experiment, each with its evidence and what to do next. Pure."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness import rules
from ci_doctor.correctness.report.differences import (
    TELLING,
    AnswerDifference,
    divergence_lines,
)
from ci_doctor.correctness.report.start_evidence import control_findings
from ci_doctor.correctness.report.tokens import Hardness
from ci_doctor.correctness.results import Experiment, ExperimentEnding, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import explain
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import ArmStart, DifferenceKind, of_arm
from ci_doctor.correctness.verdict.validity import models_within
from ci_doctor.load.looks import count_prompts
from ci_doctor.load.requests import Request
from ci_doctor.model.cause import Cause, about_retry
from ci_doctor.model.facts.correctness import PermutationTest
from ci_doctor.model.finding import Evidence, Finding, NextStep, Severity, ShellCommand
from ci_doctor.model.service import FailureKind, LeftBehind, ServiceFailure
from ci_doctor.model.verdict import Verdict
from ci_doctor.model.words import shortened
from ci_doctor.render import formatting
from ci_doctor.services.findings import cause_words, finding_of, leak_findings, with_next_step


class Context(Struct, frozen=True, kw_only=True):
    """What the findings refer to.

    `places` is the file and the line of each request, the line None if the file has no lines, and
    `total` how many requests there are. `requests` are those that were sent, if that is known, and
    `prompts` counts different ones. `one_request` is the command line that runs one request alone, less
    its id; `run` the report directory as a person would type it, empty if answers were collected
    without one. `to_do` is then what to do about a regression.
    """

    places: Mapping[str, tuple[str, int | None]]
    total: int
    prompts: int
    requests: Sequence[Request] = ()
    one_request: str = ""
    run: str = ""
    to_do: str = ""


def run_context(
    requests: Sequence[Request], file: str, one_request: str, run: str = "ci-doctor-report"
) -> Context:
    """The context of a run that sent the `requests` of a file."""
    return Context(
        places={request.id: (file, request.line) for request in requests},
        total=len(requests),
        prompts=count_prompts(requests),
        requests=requests,
        one_request=one_request,
        run=run,
    )


# --- why the starts of an arm failed, for a verdict that rests on no answers ---

_ON_STARTS = frozenset({Verdict.FAILED, Verdict.INFRA})
_MOST_CHARACTERS = 300


def with_cause(decision: Decision, experiment: Experiment) -> Decision:
    """`decision` with a reason that begins with what ended the starts, if they decide it."""
    failure = deciding_failure(decision, experiment)
    if failure is None:
        return decision
    cause = _named_by(failure)
    words = failure.message
    if cause is not None:
        words = cause.phrase
    words = shortened(words, _MOST_CHARACTERS)
    return replace(decision, reason=f"{words}; {decision.reason}")


def remedy_of(failure: ServiceFailure) -> NextStep | None:
    """What to do about it: of the cause that its log names, else where to look."""
    cause = _named_by(failure)
    if cause is None:
        return finding_of(failure).remedy
    # Nothing here asks for a retry, whatever the line says of itself.
    said = about_retry(cause.retry, is_proven=False)
    return f"{cause.remedy} {said}".strip()


def deciding_failure(decision: Decision, experiment: Experiment) -> ServiceFailure | None:
    """The failure of a start that speaks for the verdict; None if the verdict rests on answers."""
    if decision.verdict not in _ON_STARTS:
        return None
    baseline = _failures_of(Arm.BASELINE, experiment)
    has_worked = any(start.arm is Arm.BASELINE and not start.failed for start in experiment.starts)
    failures = baseline
    if has_worked:
        failures = _failures_of(Arm.CANDIDATE, experiment) or baseline
    if decision.verdict is Verdict.INFRA:
        return next((each for each in failures if each.kind is FailureKind.OUTSIDE), None)
    counting = [each for each in failures if each.kind is not FailureKind.OUTSIDE]
    # What only the candidate's log calls a cause outside the change is not proven to be one.
    unproven = [replace(each, kind=FailureKind.DIED) for each in failures]
    failures = counting or unproven
    # A start whose log names the cause says more than one that ended without a word.
    named = [each for each in failures if _named_by(each) is not None]
    return next(iter(named or failures), None)


def _failures_of(arm: Arm, experiment: Experiment) -> Sequence[ServiceFailure]:
    of_arm = (result for result in experiment.compared if result.start.arm is arm)
    return [result.failure for result in of_arm if result.failure is not None]


def _named_by(failure: ServiceFailure) -> Cause | None:
    """The cause that ended a service of the change by its own words; None if none did."""
    # The machine's word stands above a log's, and is in the message.
    if failure.kind is not FailureKind.DIED or failure.oom:
        return None
    cause = failure.elsewhere or failure.cause
    if cause is None or not cause.is_final:
        return None
    return cause


# --- warnings about answers that show little: one text for all, blank ones, another model ---

_SHOWN = 3
_MOST_EXCERPT = 300


def suspicious_answers(
    starts: Sequence[ArmStart], requests: Sequence[Request], prompts: int
) -> Iterator[Finding]:
    """A finding for each kind; the first start that shows it stands for the others.

    `requests` are those that were sent, if that is known; `prompts` counts different ones.
    """
    yield from _one_answer(starts, prompts)
    yield from _blank_answers(starts)
    yield from _not_as_requested(starts, requests)
    yield from _other_model(starts)
    yield from _within_an_arm(starts)
    yield from _cut_answers(starts)


def _one_answer(starts: Sequence[ArmStart], prompts: int) -> Iterator[Finding]:
    """One and the same text for different prompts."""
    for start in starts:
        if start.looks.is_one_answer(prompts):
            message = f"{start.name} gave one and the same answer to all {start.looks.answered} "
            yield rules.ONE_ANSWER.finding(
                f"{message}requests, of {prompts} different prompts", remedy=rules.ONE_ANSWER.remedy
            )
            return


def _blank_answers(starts: Sequence[ArmStart]) -> Iterator[Finding]:
    """White space or tokens alone; answers without both have a finding of their own."""
    for start in starts:
        if start.looks.blank > start.empty:
            message = f"{start.looks.blank} of {start.looks.answered} answers of {start.name} hold "
            yield rules.BLANK_ANSWERS.finding(
                f"{message}no word", remedy=rules.BLANK_ANSWERS.remedy
            )
            return


def _not_as_requested(starts: Sequence[ArmStart], requests: Sequence[Request]) -> Iterator[Finding]:
    """Answers of another model than the request names."""
    wanted = {request.id: request.body.get("model") for request in requests}
    for start in starts:
        others = []
        for request, model in start.looks.models.items():
            name = wanted.get(request)
            if name is not None and name != model:
                others.append(f"{model} for {name}")
        if others:
            which = _few_texts(sorted(set(others)))
            message = f"{len(others)} answers of {start.name} are of another model than requested"
            yield rules.OTHER_MODEL.finding(f"{message}: {which}", remedy=rules.OTHER_MODEL.remedy)
            return


def _other_model(starts: Sequence[ArmStart]) -> Iterator[Finding]:
    """The two arms name different models in answers to the same requests."""
    baseline = _models(of_arm(starts, Arm.BASELINE))
    candidate = _models(of_arm(starts, Arm.CANDIDATE))
    differing = []
    for request, model in candidate.items():
        before = baseline.get(request, model)
        if before != model:
            differing.append(f"{before} in the baseline, {model} in the candidate")
    if differing:
        which = _few_texts(sorted(set(differing)))
        message = f"the arms name different models in {len(differing)} answers: {which}"
        yield rules.OTHER_MODEL.finding(message, remedy=rules.OTHER_MODEL.remedy)


def _within_an_arm(starts: Sequence[ArmStart]) -> Iterator[Finding]:
    """Starts of one arm that name different models."""
    for arm in Arm:
        reason = models_within(of_arm(starts, arm))
        if reason is not None:
            yield rules.OTHER_MODEL.finding(reason, remedy=rules.OTHER_MODEL.remedy)


def _cut_answers(starts: Sequence[ArmStart]) -> Iterator[Finding]:
    """Answers that end at their first token by their length."""
    for start in starts:
        looks = start.looks
        if looks.cut:
            yield rules.CUT_ANSWERS.finding(
                f"the length ended {looks.cut} of {looks.longer} answers of {start.name} at their "
                "first token, though the requests ask for more",
                remedy=rules.CUT_ANSWERS.remedy,
            )
            return


def _models(starts: Sequence[ArmStart]) -> Mapping[str, str]:
    models: dict[str, str] = {}
    for start in starts:
        models.update(start.looks.models)
    return models


def _few_texts(texts: Sequence[str]) -> str:
    shown = "; ".join(texts[:_SHOWN])
    more = len(texts) - _SHOWN
    if more > 0:
        return f"{shown}; and {more} more"
    return shown


# --- the findings about starts: failed services, requests without an answer, notes ---


# What went wrong in a start: (request, text), sorted. A tuple, so that it can be a key.
_Errors = tuple[tuple[str, str], ...]


class _FailureGroup(Struct, frozen=True):
    """What the failures of one finding have in common."""

    arm: Arm
    service: str
    kind: FailureKind
    cut_short: bool


def start_notes(experiment: Experiment, context: Context) -> Iterator[Finding]:
    """What is worth knowing of the starts and decides nothing."""
    yield from _throttled(experiment.results)
    yield from _empty(experiment.results)
    starts = [result.start for result in experiment.results]
    yield from suspicious_answers(starts, context.requests, context.prompts)
    yield from control_findings(starts)
    yield from _killed(experiment.results)
    yield from leak_findings(all_left(experiment))


def all_left(experiment: Experiment) -> LeftBehind:
    """What all starts have left behind together."""
    left = [result.left_behind for result in experiment.results]
    return LeftBehind(
        things=tuple(thing for each in left for thing in each.things),
        unseen=tuple(dict.fromkeys(name for each in left for name in each.unseen)),
    )


def failure_findings(experiment: Experiment, decision: Decision) -> Iterator[Finding]:
    """The services that failed: the first failure of each kind and arm, with all its starts."""
    names: dict[_FailureGroup, list[str]] = {}
    first: dict[_FailureGroup, ServiceFailure] = {}
    for result in experiment.results:
        failure = result.failure
        if failure is None:
            continue
        start = result.start
        group = _FailureGroup(start.arm, failure.service, failure.kind, result.cut_short)
        names.setdefault(group, []).append(start.name)
        first.setdefault(group, failure)
    for group, failure in first.items():
        starts = ", ".join(names[group])
        if group.cut_short:
            starts = f"{starts}, cut short by the budget"
        rule = rules.OF_FAILURE[group.kind]
        said = failure
        if decision.verdict is not Verdict.INFRA:
            # The words agree with the exit code: no retry is asked for.
            said = replace(failure, kind=FailureKind.DIED)
        yield rule.finding(
            f"{group.arm} ({starts}): {failure.message}",
            evidence=(*failure.evidence(), *cause_words(said)),
            remedy=with_next_step(None, failure),
            severity=_blame(group, decision),
        )


def _blame(group: _FailureGroup, decision: Decision) -> Severity:
    """An error only if the failure is the regression."""
    regression = decision.verdict is Verdict.REGRESSION
    if regression and group.arm is Arm.CANDIDATE and not group.cut_short:
        return Severity.ERROR
    return Severity.WARNING


def _unanswered(experiment: Experiment, context: Context) -> Iterator[Finding]:
    """Requests without an answer; starts with the same errors share a finding."""
    groups: dict[_Errors, list[str]] = {}
    for result in experiment.results:
        # The budget leaves the rest of a start unanswered: that is no fault of the service.
        if result.errors and not result.cut_short:
            errors = tuple(sorted(result.errors.items()))
            names = groups.setdefault(errors, [])
            names.append(result.start.name)
    for errors, names in groups.items():
        starts = ", ".join(names)
        yield rules.UNANSWERED.finding(
            f"{len(errors)} of {context.total} requests were not answered in {starts}",
            evidence=_error_evidence(errors, context),
        )


def _error_evidence(errors: _Errors, context: Context) -> tuple[Evidence, ...]:
    """The first errors that differ, each at the line of its request."""
    evidence = []
    for request, text in distinct_errors(dict(errors), _SHOWN):
        file, line = context.places.get(request, (None, None))
        # A server may answer with a page of HTML, and a file may hold it in any length.
        excerpt = f"{request}: {text}"[:_MOST_EXCERPT]
        evidence.append(Evidence(file=file, line=line, excerpt=excerpt))
    return tuple(evidence)


def distinct_errors(errors: Mapping[str, str], most: int) -> list[tuple[str, str]]:
    """At most `most` errors (request, text), no text twice."""
    first: dict[str, str] = {}
    for request, text in errors.items():
        if len(first) == most:
            break
        # A server that is down fails every request in the same words: one of them is enough.
        first.setdefault(text, request)
    return [(request, text) for text, request in first.items()]


def _throttled(results: Sequence[StartResult]) -> Iterator[Finding]:
    counts = []
    for result in results:
        if result.throttled:
            count = f"{result.throttled} in {result.start.name}"
            counts.append(count)
    if not counts:
        return
    starts = ", ".join(counts[:_SHOWN])
    more = len(counts) - _SHOWN
    if more > 0:
        starts += f" and {more} more starts"
    yield rules.THROTTLED.finding(
        f"requests were answered only after HTTP 429: {starts}",
        remedy=rules.THROTTLED.remedy,
    )


def _empty(results: Sequence[StartResult]) -> Iterator[Finding]:
    for result in results:
        start = result.start
        if start.empty:
            yield rules.EMPTY_ANSWERS.finding(
                f"{start.empty} answers of {start.name} hold no text",
                remedy=rules.EMPTY_ANSWERS.remedy,
            )
            return


def _killed(results: Sequence[StartResult]) -> Iterator[Finding]:
    killed = []
    for result in results:
        for name in result.killed:
            where = f"{name} in {result.start.name}"
            killed.append(where)
    if not killed:
        return
    count = f"{len(killed)} processes ignored SIGINT and SIGTERM and were killed"
    message = f"{count}, the first {killed[0]}"
    yield rules.KILLED.finding(message, remedy=rules.KILLED.remedy)


# --- the findings of an experiment, each with its evidence and what to do next ---

# Differing answers lead to these verdicts. The others have another reason, whatever the answers.
_ABOUT_ANSWERS = {
    Verdict.REGRESSION,
    Verdict.FLAKY,
    Verdict.INCONCLUSIVE,
    Verdict.NONDETERMINISTIC,
}
# What to do about a run that no further start decides.
_NOT_BY_STARTS = (
    "No further start of this run can decide it. Look at the answers shown; then run it again, with "
    "more starts (`--max-starts 32`), or make the baseline steadier with `ci-doctor setup-env "
    "--determinism strict`."
)


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
    yield from failure_findings(experiment, decision)
    yield from _unanswered(experiment, context)
    if experiment.ending is ExperimentEnding.BUDGET:
        rule = rules.BUDGET_SPENT
        yield rule.finding("the budget ended before the run was decided", remedy=rule.remedy)
    yield from mended_findings(decision)
    yield from _extended(experiment)
    yield from start_notes(experiment, context)


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
    evidence = []
    for difference in shown:
        file, line = context.places.get(difference.request, (None, None))
        excerpt = "\n".join(divergence_lines(difference))
        evidence.append(Evidence(file=file, line=line, excerpt=excerpt))
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
            return decision.step or decision.settle
        if decision.is_final:
            return rules.MENDED.remedy if decision.mended else _NOT_BY_STARTS
        return rules.OF_VERDICT[decision.verdict].remedy
    if not context.run:
        return context.to_do
    if shown:
        return ShellCommand(replay_command(shown[0], context))
    # The candidate failed, so no recorded answer can be shown: one request has to be sent anew.
    return ShellCommand(f"{context.one_request} ID")


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
