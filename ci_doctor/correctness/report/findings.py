# SPDX-License-Identifier: Apache-2.0
"""The findings of an experiment, on answers and on starts, each with its evidence and what to do next. Pure."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness import rules
from ci_doctor.correctness.report.differences import TELLING, divergence_lines
from ci_doctor.correctness.results import (
    Experiment,
    ExperimentEnding,
    StartResult,
    all_left,
    crowd_advice,
    distinct_errors,
    is_broken,
)
from ci_doctor.correctness.settings import AnswerLevel, Arm, ArmPlan, Rules
from ci_doctor.correctness.verdict.compare import drift_of, explain
from ci_doctor.correctness.verdict.mix_test import Labels, mix_test, patterns, traits
from ci_doctor.correctness.verdict.schedule import together
from ci_doctor.correctness.verdict.starts import (
    ArmStart,
    DifferenceKind,
    independent_builds,
    of_arm,
    only_device,
    working,
)
from ci_doctor.correctness.verdict.validity import Decision, models_within
from ci_doctor.load.looks import count_prompts
from ci_doctor.load.requests import Request
from ci_doctor.model.binomial import upper_limit
from ci_doctor.model.cause import Cause, about_retry
from ci_doctor.model.facts.correctness import (
    AlignedAnswers,
    ArchiveUseFacts,
    ControlResult,
    Hardness,
    IdentityFacts,
    PromptRegion,
    SensitivityFacts,
)
from ci_doctor.model.facts.launch import FailureKind, ServiceFailure
from ci_doctor.model.outcome import (
    Evidence,
    Finding,
    NextStep,
    Rule,
    Severity,
    ShellCommand,
    Verdict,
)
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import amount, listed, part_of, probability
from ci_doctor.services.findings import (
    STOP_FAILED,
    evidence_of,
    finding_of,
    leak_findings,
    with_next_step,
)


class Context(Struct, frozen=True, kw_only=True):
    """What the findings refer to.

    `places` is the file and the line of each request, the line None if the file has no lines, and
    `total` how many requests there are. `requests` are those that were sent, if that is known, and
    `prompts` counts different ones. `one_request` is the command line that runs one request alone, less
    its id; `run` the report directory as a person would type it, empty if answers were collected
    without one. `to_do` is then what to do about a regression. `at_once` requests were sent together.
    """

    places: Mapping[str, tuple[str, int | None]]
    total: int
    prompts: int
    requests: Sequence[Request] = ()
    one_request: str = ""
    run: str = ""
    to_do: str = ""
    at_once: int = 1


def run_context(
    requests: Sequence[Request],
    file: str,
    one_request: str,
    run: str = "ci-doctor-report",
    concurrency: int = 1,
) -> Context:
    """The context of a run that sent the `requests` of a file."""
    return Context(
        places={request.id: (file, request.line) for request in requests},
        total=len(requests),
        prompts=count_prompts(requests),
        requests=requests,
        at_once=min(concurrency, len(requests)),
        one_request=one_request,
        run=run,
    )


# --- why the starts of an arm failed, for a verdict that rests on no answers ---

_ON_STARTS = frozenset({Verdict.FAILED, Verdict.INFRA})
_MOST_CHARACTERS = 300


def with_cause(decision: Decision, experiment: Experiment) -> Decision:
    """`decision` with a reason that begins with what ended the starts, if that is to be mended first."""
    failure = failure_to_mend(decision, experiment)
    if failure is None:
        return decision
    cause = _named_by(failure)
    words = shortened(cause.phrase if cause else failure.message, _MOST_CHARACTERS)
    return replace(decision, reason=f"{words}; {decision.reason}")


def remedy_of(failure: ServiceFailure, verdict: Verdict) -> NextStep | None:
    """What to do about it: of the cause that its log names, else where to look."""
    cause = _named_by(failure)
    if cause is None:
        return finding_of(failure).remedy
    if verdict is Verdict.REGRESSION:
        # The starts prove what the line alone leaves open: the change is at fault.
        return cause.remedy or finding_of(failure).remedy
    # Nothing here asks for a retry, whatever the line says of itself.
    words = about_retry(cause.retry, is_proven=False, is_test=cause.is_of_test)
    return f"{cause.remedy} {words}".strip()


def deciding_failure(decision: Decision, experiment: Experiment) -> ServiceFailure | None:
    """The failure of a start that speaks for the verdict; None if the verdict rests on answers."""
    if decision.verdict not in _ON_STARTS:
        return None
    baseline, candidate = (
        [each.failure for each in experiment.compared if each.start.arm is arm and each.failure]
        for arm in Arm
    )
    has_worked = any(start.arm is Arm.BASELINE and not start.failed for start in experiment.starts)
    failures = (candidate or baseline) if has_worked else baseline
    if decision.verdict is Verdict.INFRA:
        return next((each for each in failures if each.kind is FailureKind.OUTSIDE), None)
    counting = [each for each in failures if each.kind is not FailureKind.OUTSIDE]
    # What only the candidate's log calls a cause outside the change is not proven to be one.
    failures = counting or [replace(each, kind=FailureKind.DIED) for each in failures]
    # A start whose log names the cause says more than one that ended without a word.
    named = [each for each in failures if _named_by(each) is not None]
    return next(iter(named or failures), None)


def failure_to_mend(decision: Decision, experiment: Experiment) -> ServiceFailure | None:
    """The failure to mend before anything else helps; None if answers or more starts say more.

    A candidate that never works has no answer to look at. While that is undecided, further starts are
    useless only if each of its logs names a cause that another run does not cure.
    """
    if decision.verdict in _ON_STARTS:
        return deciding_failure(decision, experiment)
    candidate = of_arm(experiment.starts, Arm.CANDIDATE)
    is_open = decision.verdict is Verdict.INCONCLUSIVE
    if working(candidate) or not (is_open or decision.verdict is Verdict.REGRESSION):
        return None
    failures = [
        each.failure
        for each in experiment.compared
        if each.start.arm is Arm.CANDIDATE and each.failure is not None
    ]
    named = [each for each in failures if _named_by(each) is not None]
    if is_open and (len(named) < len(candidate) or only_device(candidate, experiment.starts)):
        return None
    return next(iter(named or failures), None)


def _named_by(failure: ServiceFailure) -> Cause | None:
    """The cause that ended a service of the change by its own words; None if none did."""
    # The machine's word stands above a log's, and is in the message.
    if failure.kind is not FailureKind.DIED or failure.oom:
        return None
    cause = failure.elsewhere or failure.cause
    return cause if cause is not None and cause.is_final else None


# --- warnings about answers that show little: one text for all, blank ones, another model ---

_SHOWN = 3
_MOST_EXCERPT = 300


def suspicious_answers(
    starts: Sequence[ArmStart], requests: Sequence[Request], prompts: int
) -> Iterator[Finding]:
    """A finding for each kind; the first start that shows it stands for the others.

    `requests` are those that were sent, if that is known; `prompts` counts different ones.
    """
    for start in starts:
        if start.looks.is_one_answer(prompts):
            of = f", of {prompts} different prompts" if requests else ""
            text = f"{start.name} gave one and the same answer to all {start.looks.answered} requests{of}"
            yield _finding(rules.ONE_ANSWER, text)
            break
    if blank := next((each for each in starts if each.looks.blank), None):
        looks = blank.looks
        words = f"{looks.blank} of {looks.answered} answers of {blank.name} hold no word"
        yield _finding(rules.BLANK_ANSWERS, words)
    yield from _other_models(starts, requests)
    if cut := next((each for each in starts if each.looks.cut), None):
        yield _finding(
            rules.CUT_ANSWERS,
            f"the length ended {cut.looks.cut} of {cut.looks.longer} answers of {cut.name} at "
            "their first token, though the requests ask for more",
        )


def _finding(rule: Rule, summary: str) -> Finding:
    return rule.finding(summary, remedy=rule.remedy)


def _other_models(starts: Sequence[ArmStart], requests: Sequence[Request]) -> Iterator[Finding]:
    """Answers of another model than the request names, the other arm has, or another start."""
    wanted = {request.id: request.body.get("model") for request in requests}
    for start in starts:
        others = [
            f"{model} for {wanted[request]}"
            for request, model in start.looks.models.items()
            if wanted.get(request) not in {None, model}
        ]
        if others:
            words = f"{len(others)} answers of {start.name} are of another model than requested"
            yield _finding(rules.OTHER_MODEL, f"{words}: {listed(sorted(set(others)), _SHOWN)}")
            break
    baseline, candidate = (
        {
            request: model
            for start in of_arm(starts, arm)
            for request, model in start.looks.models.items()
        }
        for arm in Arm
    )
    differing = [
        f"{baseline[request]} in the baseline, {model} in the candidate"
        for request, model in candidate.items()
        if baseline.get(request, model) != model
    ]
    if differing:
        words = f"the arms name different models in {len(differing)} answers"
        yield _finding(rules.OTHER_MODEL, f"{words}: {listed(sorted(set(differing)), _SHOWN)}")
    for arm in Arm:
        if reason := models_within(of_arm(starts, arm)):
            yield _finding(rules.OTHER_MODEL, reason)


# --- the findings about starts: failed services, requests without an answer, notes ---


def start_notes(experiment: Experiment, context: Context) -> Iterator[Finding]:
    """What is worth knowing of the starts and decides nothing."""
    results = experiment.results
    starts = [result.start for result in results]
    yield from suspicious_answers(starts, context.requests, context.prompts)
    yield from control_findings(starts)
    killed = [
        f"{each.name} ({each.pid}) in {result.start.name}"
        for result in results
        for each in result.stopped.killed
    ]
    if killed:
        count = f"{len(killed)} processes ignored SIGINT and SIGTERM and were killed"
        yield _finding(rules.KILLED, f"{count}, the first {killed[0]}")
    problems = [
        f"{result.start.name}: {one}" for result in results for one in result.stopped.problems
    ]
    if problems:
        yield STOP_FAILED.finding(listed(problems, _SHOWN), remedy=STOP_FAILED.remedy)
    yield from leak_findings(all_left(results))


def failure_findings(experiment: Experiment, decision: Decision) -> Iterator[Finding]:
    """The services that failed: the first failure of each kind and arm, with all its starts."""
    # By arm, service and kind, and whether the budget cut the start short.
    groups: dict[tuple[Arm, str, FailureKind, bool], list[tuple[str, ServiceFailure]]] = {}
    for result in experiment.results:
        failure = result.failure
        if failure is None:
            continue
        start = result.start
        group = start.arm, failure.service, failure.kind, result.cut_short
        groups.setdefault(group, []).append((start.name, failure))
    for (arm, _, kind, is_cut_short), members in groups.items():
        failure = members[0][1]
        starts = ", ".join(name for name, _ in members)
        if is_cut_short:
            starts = f"{starts}, cut short by the budget"
        is_regression = decision.verdict is Verdict.REGRESSION
        is_to_blame = is_regression and arm is Arm.CANDIDATE and not is_cut_short
        yield rules.OF_FAILURE[kind].finding(
            f"{arm} ({starts}): {failure.message}",
            # Only the verdict knows whether another run helps: its finding says so.
            evidence=evidence_of(failure, about_runs=False),
            remedy=with_next_step(None, failure),
            severity=Severity.ERROR if is_to_blame else Severity.WARNING,
        )


def _unanswered(experiment: Experiment, context: Context) -> Iterator[Finding]:
    """Requests without an answer; starts with the same errors share a finding."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for result in experiment.results:
        # The budget leaves the rest of a start unanswered: that is no fault of a service that answers.
        if result.errors and (not result.cut_short or not result.start.answered):
            errors = tuple(sorted(result.errors.items()))
            groups.setdefault(errors, []).append(result.start.name)
    crowd = crowd_advice(experiment.results, context.at_once)
    for errors, names in groups.items():
        evidence = []
        # The first errors that differ, each at the line of its request.
        for request, text in distinct_errors(dict(errors), _SHOWN):
            file, line = context.places.get(request, (None, None))
            # A server may answer with a page of HTML, and a file may hold it in any length.
            excerpt = f"{request}: {text}"[:_MOST_EXCERPT]
            evidence.append(Evidence(file=file, line=line, excerpt=excerpt))
        is_crowd = any(map(is_broken, dict(errors).values()))
        yield rules.UNANSWERED.finding(
            f"{part_of(len(errors), context.total, 'request', past=True)} not answered in "
            f"{', '.join(names)}",
            evidence=tuple(evidence),
            remedy=crowd if is_crowd else None,
        )
        # Said once.
        crowd = None if is_crowd else crowd


# --- the findings of an experiment, each with its evidence and what to do next ---

# Differing answers lead to these verdicts. The others have another reason, whatever the answers.
_ABOUT_ANSWERS = {
    Verdict.REGRESSION,
    Verdict.FLAKY,
    Verdict.INCONCLUSIVE,
    Verdict.NONDETERMINISTIC,
}


def _not_by_starts(most: int) -> str:
    """What to do about a run that no further start decides, and another of at most so many may."""
    return (
        "No further start of this run can decide it. Look at the answers shown; then run it again, with "
        f"more starts (`--max-starts {most}`), or try to make the baseline steadier with `ci-doctor setup-env "
        "--determinism strict`."
    )


def replay_command(difference: AlignedAnswers, context: Context) -> str:
    """The command line that shows one difference again."""
    words = ["ci-doctor", "correctness", "replay"]
    words += ["--run", context.run, "--request", difference.request]
    # Archived starts (a1) are not in the run's own samples.
    if not any(name[0].islower() for name in difference.starts):
        words += ["--starts", ",".join(difference.starts)]
    return shlex.join(words)


def findings(
    experiment: Experiment,
    decision: Decision,
    differences: Sequence[AlignedAnswers],
    context: Context,
) -> Iterator[Finding]:
    """The verdict's own finding, then failures, then notes; `differences` are hardest first."""
    if decision.verdict is not Verdict.PASS:
        yield _verdict_finding(experiment, decision, differences, context)
    yield from failure_findings(experiment, decision)
    yield from _unanswered(experiment, context)
    if experiment.ending is ExperimentEnding.BUDGET:
        # Without a remedy: that of the verdict resumes the run, if that would decide it.
        yield rules.BUDGET_SPENT.finding("the budget ended before all starts were made")
    # Beside a verdict that blames nobody.
    if decision.mended and decision.verdict in {Verdict.FLAKY, Verdict.INCONCLUSIVE}:
        yield _finding(
            rules.MENDED,
            f"{listed(decision.mended, _SHOWN)}: the baseline differs from itself, and the candidate never does",
        )
    yield from start_notes(experiment, context)


def _verdict_finding(
    experiment: Experiment,
    decision: Decision,
    differences: Sequence[AlignedAnswers],
    context: Context,
) -> Finding:
    shown = telling_differences(decision, differences)
    evidence = []
    for difference in shown:
        file, line = context.places.get(difference.request, (None, None))
        excerpt = "\n".join(divergence_lines(difference))
        evidence.append(Evidence(file=file, line=line, excerpt=excerpt))
    remedy = _remedy(decision, experiment, shown, context)
    return rules.OF_VERDICT[decision.verdict].finding(
        _which(decision, differences) if shown else decision.reason,
        evidence=tuple(evidence),
        remedy=remedy,
    )


def telling_differences(
    decision: Decision, differences: Sequence[AlignedAnswers]
) -> Sequence[AlignedAnswers]:
    """The differences that explain the verdict; none if it has another reason."""
    # A candidate that answered nothing at all has no difference to show: its end is the reason.
    has_answers = any(each.hardness is not Hardness.MISSING for each in differences)
    if decision.verdict not in _ABOUT_ANSWERS or not has_answers:
        return ()
    disputed = set(decision.test.disputed) if decision.test else set()
    # The sort is stable: among the disputed requests the hardest stay first.
    return sorted(differences, key=lambda each: each.request not in disputed)[:_SHOWN]


def _remedy(
    decision: Decision,
    experiment: Experiment,
    shown: Sequence[AlignedAnswers],
    context: Context,
) -> NextStep | None:
    """The next step: a command for a difference to look at, else an advice."""
    failure = None if shown else failure_to_mend(decision, experiment)
    if failure is not None and decision.verdict is not Verdict.INFRA:
        return remedy_of(failure, decision.verdict)
    is_lost = DifferenceKind.UNANSWERED in decision.kinds.values()
    if decision.verdict is not Verdict.VOID:
        is_lost = decision.verdict in {Verdict.FLAKY, Verdict.INCONCLUSIVE} and not shown
    if decision.verdict is Verdict.REGRESSION:
        return _closer_look(experiment, shown, context)
    if is_lost and (crowd := crowd_advice(experiment.results, context.at_once)):
        return crowd
    if decision.settle:
        return decision.step or decision.settle
    if decision.is_final and not decision.mended:
        return _not_by_starts(2 * experiment.rules.max_starts)
    return (rules.MENDED if decision.is_final else rules.OF_VERDICT[decision.verdict]).remedy


def _closer_look(
    experiment: Experiment, shown: Sequence[AlignedAnswers], context: Context
) -> NextStep | None:
    """How to look at a regression: its first difference, or a request that had no answer."""
    if not context.run:
        return context.to_do if shown else rules.UNANSWERED.remedy
    if shown:
        return ShellCommand(replay_command(shown[0], context))
    # No answer was recorded that could be shown: a request is sent anew, and alone.
    for result in experiment.results:
        if result.start.arm is Arm.CANDIDATE and result.errors:
            request = shlex.quote(next(iter(result.errors)))
            return ShellCommand(f"{context.one_request} {request}")
    return None


def _which(decision: Decision, differences: Sequence[AlignedAnswers]) -> str:
    """The requests that differ, of the most telling kind."""
    if decision.verdict is Verdict.NONDETERMINISTIC or decision.is_final:
        return decision.reason
    if decision.test:
        disputed = decision.test.disputed
        # The hardest first, if a difference can be shown for any of them.
        shown = [each for each in differences if each.request in disputed]
        how = "the candidate gives other answers than the baseline, or in another mix"
        if {each.kind for each in shown} == {DifferenceKind.CHANGED}:
            how = "no candidate start answers as a baseline start does"
        # The test may be of all requests together, none of them disputed alone.
        names = [each.request for each in shown] or disputed
        return f"{listed(names or [each.request for each in differences], _SHOWN)}: {how}"
    kind = min((DifferenceKind(each.kind) for each in differences), key=TELLING.index)
    return f"{listed([each.request for each in differences if each.kind == kind], _SHOWN)}: {explain(kind)}"


# --- why equal answers may show nothing ---


def shared_flaw(results: Sequence[StartResult]) -> str | None:
    """Why equal answers show nothing: a start read what the other arm wrote; None if none did."""
    for result in results:
        for read in result.shared.read:
            return (
                f"{result.start.name} read {read.path}, which changed while {read.writer} ran: "
                "one arm's answers may come from the other"
            )
    return None


def unended_flaw(results: Sequence[StartResult]) -> str | None:
    """Why equal answers may be cut, or were not compared in all that was asked for; None if they were."""
    for result in results:
        looks = result.start.looks
        if looks.unended:
            return (
                f"{looks.unended} of {looks.answered} answers of {result.start.name} have no "
                "`finish_reason`: one that was cut looks the same"
            )
        if looks.unscored:
            return (
                f"{looks.unscored} of {looks.answered} answers of {result.start.name} lack the "
                "log-probabilities that were asked for: none was compared"
            )
        if looks.broken_off:
            request, reason = next(iter(looks.broken_off.items()))
            return (
                f"{len(looks.broken_off)} of {looks.answered} answers of {result.start.name} were taken "
                f'away or given up ({request}: finish_reason "{reason}"): mend the server or its filter, '
                "or leave these requests out"
            )
        if looks.contradictions:
            request, reason = next(iter(looks.contradictions.items()))
            return (
                f"{len(looks.contradictions)} of {looks.answered} answers of {result.start.name} "
                f"contradict themselves ({request}: {reason}): mend what builds them, the server or a proxy"
            )
        if looks.one_number is not None:
            return (
                f"every log-probability of {result.start.name} is exactly {looks.one_number:g}: no model "
                "is equally sure of every token, so let the server give raw log-probabilities"
            )
    return None


# --- what the controls showed ---


def control_findings(starts: Sequence[ArmStart]) -> Iterator[Finding]:
    """A warning for each start whose control did not show that it reads its prompts."""
    for start in starts:
        control = start.control
        if control is not None and control.result is not ControlResult.CHANGED:
            yield rules.CONTROL.finding(
                f"{start.arm} {start.name}: {control.in_words()}", remedy=rules.CONTROL.remedy
            )


# --- how much the requests can show ---

REGIONS = {
    PromptRegion.SHARED: "shared beginning",
    PromptRegion.OWN: "elsewhere",
}
# One side: the share is below a half, with this error at most.
_LITTLE, _LITTLE_ERROR = 0.5, 0.05


def sensitivity_findings(
    facts: Sequence[SensitivityFacts], level: AnswerLevel
) -> Iterator[Finding]:
    """A warning if fewer than half of the answers change with one word, in a region or in all."""
    at_level = [each for each in facts if each.level == level.value]
    for part in (at_level, *([each] for each in at_level)):
        answers, changed = sum(each.answers for each in part), sum(each.changed for each in part)
        if answers and upper_limit(changed, answers, _LITTLE_ERROR) < _LITTLE:
            where = f" ({REGIONS[part[0].region]})" if len(part) == 1 else ""
            yield rules.INSENSITIVE.finding(
                f"one other word in the prompt{where} changed {changed} of {amount(answers, 'answer')}, compared "
                f"by {level.value}",
                remedy=rules.INSENSITIVE.remedy,
            )
            return


# --- on which devices the starts ran, and whether their answers follow the device ---
# The devices were drawn for each pair of starts. So if they do not matter, which start of a pair ran on
# a device is chance, and the test of the arms tests the devices too, with the pairs as blocks.

_LEVEL, _MAY_BE = 0.05, 0.5


def device_findings(
    results: Sequence[StartResult], drawn_by: Rules, places: int, at_once: int
) -> Iterator[Finding]:
    """That answers follow the device, and not the arm; a note if chance may well be the reason."""
    made = [each.start for each in results if each.counts and not each.start.archived]
    pairs = [together(made, drawn_by, index, at_once).start for index in range(len(made))]
    # A start that failed has no answers that could follow anything.
    answered = [at for at, start in enumerate(made) if start.devices and not start.failed]
    starts, blocks = [made[at] for at in answered], tuple(pairs[at] for at in answered)
    requests = list(starts[0].answers) if starts else []
    given = traits(patterns(starts, requests), [False] * len(starts))
    # What one of two devices shows, the other one shows as well.
    devices = sorted({start.devices for start in starts})
    for device in devices if places > 2 else devices[:1]:
        is_on = tuple(start.devices == device for start in starts)
        on, others = (
            [start for start, here in zip(starts, is_on, strict=True) if here is side]
            for side in (True, False)
        )
        if not given.columns or {each.arm for each in on}.isdisjoint(each.arm for each in others):
            continue
        test = mix_test(given, Labels(candidate=is_on, block=blocks))
        p = test.p if places == 2 else min(1.0, test.p * places)
        is_sure = p <= _LEVEL
        # No draw of these starts would separate the devices more.
        may_be = test.p <= test.smallest_p and p <= _MAY_BE
        if not test.requests or not (is_sure or may_be):
            continue
        yield rules.DEVICE.finding(
            f"answers {'follow' if is_sure else 'may follow'} the device, not the arm: {listed(test.requests, 3)} on device {device} "
            f"and elsewhere; the draw of the devices alone does so in {probability(100 * p)}% of cases",
            evidence=tuple(
                Evidence(excerpt=f"{label}: {listed([each.name for each in side], 8)}")
                for label, side in ((f"on device {device}", on), ("elsewhere", others))
            ),
            severity=Severity.WARNING if is_sure else Severity.NOTE,
            remedy=rules.DEVICE.remedy,
        )


# --- what the arms themselves do not have in common, if nobody asked for it ---

_MOST_FACTS = 4
# Under these verdicts a difference between the arms themselves may be the cause.
_MAY_BE_THE_ARMS = {Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.NONDETERMINISTIC}


def arm_findings(
    decision: Decision, identity: IdentityFacts, arms: Mapping[Arm, ArmPlan]
) -> Iterator[Finding]:
    """The differences between the arms that may explain different answers.

    What the configuration itself gives to one arm is meant to differ: its command line, the files
    that only one command names, its variables, its reset. The facts of the report hold these too.
    """
    if decision.verdict not in _MAY_BE_THE_ARMS:
        return
    # What the configuration sets for the services of an arm.
    own = {name for plan in arms.values() for each in plan.names for name in plan.specs[each].env}
    differing = {
        fact: sides for fact, sides in identity.arms.items() if not _is_meant(fact, *sides, own)
    }
    if not differing:
        return
    lines = [
        f"{fact}: {left or 'absent'} -> {right or 'absent'}"
        for fact, (left, right) in differing.items()
    ]
    words = ", ".join(list(differing)[:_MOST_FACTS])
    if len(differing) > _MOST_FACTS:
        words = f"{words} and more"
    yield rules.DIFFERENT_ARMS.finding(
        f"the arms differ in {words}",
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy=rules.DIFFERENT_ARMS.remedy,
    )


def _is_meant(fact: str, left: str | None, right: str | None, own: Collection[str]) -> bool:
    """Whether the configuration makes this difference; `own` are the variables that it sets."""
    # With several services, a fact has the name of its own in front: `kv: argv`.
    name = fact.rpartition(": ")[2]
    if name == "argv" or name.startswith("schedule."):
        return True
    # A file that both commands name differs in its content, and that is not in the configuration.
    if name.startswith("file "):
        return left is None or right is None
    return name.startswith("env.") and name.removeprefix("env.") in own


# --- what a report says of the archive beside today's starts ---


def archive_use(starts: Sequence[ArmStart]) -> ArchiveUseFacts | None:
    """How many archived starts there are, of how many builds, and their drift; None without any."""
    archived = [start for start in starts if start.archived]
    if not archived:
        return None
    return ArchiveUseFacts(
        starts=len(archived),
        builds=independent_builds(archived),
        unknown_builds=sum(start.build is None for start in archived),
        drift=drift_of(starts),
    )


def drift_findings(archive: ArchiveUseFacts | None) -> Iterator[Finding]:
    """A warning if today's baseline answers otherwise than the archive."""
    drift = archive.drift if archive else None
    if archive is not None and drift is not None:
        archived = amount(archive.starts, "archived start")
        how = f"share no answer with {archived}"
        if drift.p is not None:
            how = f"mix their answers otherwise than {archived} (exact test, p = {drift.p:.2g})"
        yield rules.ARCHIVE_DRIFT.finding(
            f"{drift.request}: {drift.today} baseline starts of today {how}; the archive is off",
            remedy=rules.ARCHIVE_DRIFT.remedy,
        )
