# SPDX-License-Identifier: Apache-2.0
"""A verdict as a value, and whether the evidence for one can mean anything: what is missing, void, broken. Pure.

Servers may agree because nothing was computed. Each sign of that makes a run void, unless the candidate
alone shows it and answers differently: then the change did that, and the comparison decides.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from ci_doctor.correctness.settings import Arm, EvidencePolicy, Rules
from ci_doctor.correctness.verdict.compare import counted
from ci_doctor.correctness.verdict.mix_test import MISSING, Pattern, Patterns
from ci_doctor.correctness.verdict.starts import (
    ArmStart,
    DifferenceKind,
    failures,
    have_answers,
    of_arm,
    only_device,
    outcomes,
    working,
)
from ci_doctor.model import binomial
from ci_doctor.model.facts.correctness import ControlResult, PermutationTest, RequestBound
from ci_doctor.model.outcome import ShellCommand, Verdict, is_green
from ci_doctor.render.formatting import whole_percent_up

# "Always the same" and "never the same" mean something for two starts at least.
FEWEST = 2


class OrderDoubt(StrEnum):
    """Why a test that rejects declares no regression: the order of the starts."""

    # Nobody knows in which order the starts were made.
    UNKNOWN = "unknown"
    # The arms lie so far apart in time that what changed with time changed with them.
    TIME = "time"


class Decision(Struct, frozen=True, kw_only=True):
    """A verdict, its reason in one sentence, and the kind of every request.

    `risk` is what the verdict does not exclude. `bound` is the share of starts, from 0 to 1, from
    which on a green verdict excludes a fault on one request; `bounds` holds it for each request,
    the largest first. `settle` is what may decide an undecided run, in starts, `step` the command for it. `is_final`: no
    further start can decide it. On the requests `mended` the baseline differs from itself, and the
    candidate always gives the baseline's most frequent answer. `doubt`: the test rejects, and the
    order of the starts may be why.
    """

    verdict: Verdict
    reason: str
    kinds: Mapping[str, DifferenceKind] = {}
    test: PermutationTest | None = None
    risk: str | None = None
    bound: float | None = None
    bounds: tuple[RequestBound, ...] = ()
    settle: str | None = None
    step: ShellCommand | None = None
    is_final: bool = False
    mended: tuple[str, ...] = ()
    doubt: OrderDoubt | None = None

    def count(self, *kinds: DifferenceKind) -> int:
        """How many requests are of one of these kinds."""
        return sum(kind in kinds for kind in self.kinds.values())


class VerdictEvidence(Struct, frozen=True, kw_only=True):
    """The starts that count, by arm, and the ids of the requests that were sent to them.

    `complete`: every start of the schedule was made. `claimed` is the number of candidate starts that
    do not count, and whose own log is the only witness of an outside cause. `strict`: evidence that
    shows too little makes the run void. `manner` is how two answers are the same, in words.
    """

    baseline: Sequence[ArmStart]
    candidate: Sequence[ArmStart]
    requests: Sequence[str]
    complete: bool
    claimed: int = 0
    strict: bool = True
    manner: str = "byte for byte"

    @property
    def total(self) -> int:
        """How many requests there are."""
        return len(self.requests)

    @property
    def starts(self) -> tuple[ArmStart, ...]:
        """Both arms, the baseline first."""
        return (*self.baseline, *self.candidate)


# The confidence with which a bound excludes a fault.
CONFIDENCE = 0.95


def request_bounds(
    by_pattern: Patterns, baseline: Collection[int], candidate: Sequence[int]
) -> tuple[RequestBound, ...]:
    """The bound of each request, the largest first.

    `baseline` and `candidate` are the places of the arms' starts in the patterns. A candidate start
    differs if it gave no answer, or one that no baseline start gave.
    """
    bounds: list[RequestBound] = []
    for pattern, requests in by_pattern.items():
        differed = _own(pattern, baseline, candidate)
        bound = upper_limit(differed, len(candidate))
        for request in requests:
            each = RequestBound(
                request=request, differed=differed, starts=len(candidate), bound=bound
            )
            bounds.append(each)
    return tuple(sorted(bounds, key=lambda each: -each.bound))


def _own(pattern: Pattern, baseline: Collection[int], candidate: Sequence[int]) -> int:
    known = {pattern[place] for place in baseline} - {MISSING}
    return sum(pattern[place] not in known for place in candidate)


@lru_cache(maxsize=4096)
def upper_limit(differed: int, starts: int) -> float:
    """The share of faulty starts, from 0 to 1, that `differed` of `starts` do not exclude.

    Clopper & Pearson's exact limit (1934, doi:10.1093/biomet/26.4.404), with the error 0.05 divided
    over the possible numbers: a half for 0, a quarter for 1, and so on. The number of faulty starts
    never falls while an experiment goes on. So for each number the first moment at which the limit
    would be untrue is the only one that counts, and the limit holds at whatever moment it ends.
    """
    error = (1 - CONFIDENCE) / 2 ** (differed + 1)
    return binomial.upper_limit(differed, starts, error)


_CONFIDENCE = f"(at {100 * CONFIDENCE:.4g}% confidence)"


def remaining_risk(bounds: Sequence[RequestBound]) -> str:
    """What a green verdict leaves open. `bounds` are those of all requests, the largest first."""
    worst = bounds[0]
    starts = "1 candidate start" if worst.starts == 1 else f"{worst.starts} candidate starts"
    if worst.bound >= 1:
        return (
            f"a fault on {worst.request} in any share of starts can hide: the candidate's answer "
            f"to it was its own in {worst.differed} of {starts}"
        )
    bound = whole_percent_up(worst.bound)
    if worst.differed:
        return (
            f"{worst.request} differed in {worst.differed} of {starts}: a fault that changes it in "
            f"less than {bound}% of starts can hide {_CONFIDENCE}; "
            "so can any fault whose answers the baseline gave too"
        )
    return (
        f"a fault that changes an answer in less than {bound}% of starts can hide behind {starts} "
        f"{_CONFIDENCE}; so can any fault whose answers the baseline gave too"
    )


def any_pair_risk(retries: int) -> str:
    """What the policy `any` lets through.

    One agreeing pair of starts is enough for it: 1 - q^n, if an attempt shows the bug with
    probability q. The sentence takes q = 1/2.
    """
    passed = 1 - 0.5**retries
    return (
        "the policy `any` lets a bug that shows in half of all attempts pass "
        f"{passed:.1%} of the time, if nothing else differs"
    )


def false_alarm_risk(test: PermutationTest) -> str:
    """How often a regression is declared without one."""
    return (
        "a candidate without any fault is called a regression in at most "
        f"{100 * test.alpha:.3g}% of such experiments"
    )


def void_by_looks(evidence: VerdictEvidence) -> tuple[Verdict, str] | None:
    """The verdict `void` with its reason, if the evidence of an arm is worth nothing."""
    if not evidence.strict:
        return None
    flaws = evidence_flaws(evidence.baseline)
    # A candidate that ignores the prompts and answers differently has changed.
    if evidence.candidate and not _is_disputed(evidence):
        flaws = [*flaws, *evidence_flaws(evidence.candidate)]
    return (Verdict.VOID, flaws[0]) if flaws else None


def without_flaws(decision: Decision, starts: Sequence[ArmStart], rules: Rules) -> Decision:
    """The decision, or `void` if a green one rests on evidence that is worth nothing.

    `void_by_looks` leaves a candidate that answers differently to the comparison, and that may come
    to `flaky`.
    """
    if not is_green(decision.verdict) or rules.evidence is not EvidencePolicy.STRICT:
        return decision
    flaws = evidence_flaws(counted(starts))
    flaws += [
        f"at temperature 0, {start.name} began every answer with other words in each pass, as other "
        "starts did: the answers follow the order of the requests, and not the prompts"
        for start in counted(starts)
        if start.looks.restless
    ]
    if flaws:
        return Decision(verdict=Verdict.VOID, reason=flaws[0], kinds=decision.kinds)
    return decision


def evidence_flaws(starts: Sequence[ArmStart]) -> list[str]:
    """Why the answers of an arm show too little, a sentence for each flaw, the baseline's first.

    Archived starts were judged by their build.
    """
    reasons = []
    for arm in Arm:
        fresh = [start for start in of_arm(starts, arm) if not start.archived]
        reasons += [_control_fails(fresh), _one_answer(fresh), _hollow(fresh)]
        reasons += [_cut_answers(fresh), models_within(fresh)]
    return [reason for reason in reasons if reason is not None]


def _is_disputed(evidence: VerdictEvidence) -> bool:
    """Whether on some request no candidate start shares an answer with a baseline start."""
    return any(
        not outcomes(evidence.baseline, each) & outcomes(evidence.candidate, each) - {None}
        for each in evidence.requests
    )


def _control_fails(starts: Sequence[ArmStart]) -> str | None:
    """No control of the arm changed the answer. One without an answer may be an exception."""
    controls = []
    for start in starts:
        control = start.control
        if control is None:
            continue
        if control.result is ControlResult.CHANGED:
            return None
        is_whole = not start.failed and start.answered == len(start.answers)
        is_unanswered = control.result is ControlResult.UNANSWERED and is_whole
        if control.result in {ControlResult.SAME, ControlResult.PARTLY} or is_unanswered:
            controls.append(f"{start.arm} {start.name}: {control.in_words()}")
    return controls[0] if controls else None


def _one_answer(starts: Sequence[ArmStart]) -> str | None:
    """All prompts got one text. If the control changed it, they may rightly have the same."""
    controls = [start.control.result for start in starts if start.control is not None]
    if ControlResult.CHANGED in controls:
        return None
    for start in starts:
        if start.looks.ignores_prompts:
            return (
                f"{start.name} gave one and the same answer to {start.looks.free} different prompts"
            )
    return None


def _hollow(starts: Sequence[ArmStart]) -> str | None:
    for start in starts:
        if start.looks.is_hollow:
            return (
                f"every answer of {start.name} repeats its prompt and says little else, or is an error message: "
                "nothing shows that a model has answered"
            )
    return None


def _cut_answers(starts: Sequence[ArmStart]) -> str | None:
    for start in starts:
        looks = start.looks
        if looks.longer and looks.cut == looks.longer:
            return (
                f"the length ended every answer of {start.name} at its first token, "
                "though the requests ask for more"
            )
    return None


def models_within(starts: Sequence[ArmStart]) -> str | None:
    """Why the starts of one arm, of one command, have not served the same model; None if they have."""
    first: dict[str, tuple[str, str]] = {}
    for start in starts:
        for request, model in start.looks.models.items():
            name, expected = first.setdefault(request, (start.name, model))
            if model != expected:
                return (
                    f"the {start.arm} answers {request} as {expected} in {name} "
                    f"and as {model} in {start.name}: these are different models"
                )
    return None


def missing(evidence: VerdictEvidence, tried: Sequence[ArmStart]) -> tuple[Verdict, str] | None:
    """Evidence that could not be gathered. `tried` are all starts, also those that do not count.

    `infra` is retried, so it takes a proof for every start: a baseline may be the change's own code,
    and a candidate's own log proves nothing that the baseline does not show too.
    """
    if not evidence.total or not of_arm(tried, Arm.BASELINE):
        is_cut = evidence.total and not evidence.complete
        cause = "the budget ended before a start had answered" if is_cut else "nothing was answered"
        return Verdict.VOID, f"{cause}, so there is nothing to compare"
    if not evidence.baseline:
        return _never_started(of_arm(tried, Arm.BASELINE))
    if failures(evidence.baseline) == len(evidence.baseline):
        device = only_device(evidence.baseline, evidence.starts)
        if device is not None:
            return (
                Verdict.INCONCLUSIVE,
                f"the baseline failed in every start, {_nothing_on(device)}",
            )
        return Verdict.FAILED, "the baseline failed in every start"
    if evidence.candidate:
        return None
    return _without_candidate(evidence, of_arm(tried, Arm.CANDIDATE))


def _never_started(starts: Sequence[ArmStart]) -> tuple[Verdict, str]:
    """What it means that every start of an arm ended for a reason outside the arm."""
    arm = starts[0].arm
    if any(start.of_job for start in starts):
        return Verdict.FAILED, (
            f"the {arm} could not be started: a process that this job started holds its port"
        )
    return Verdict.INFRA, f"the {arm} could not be started, for a reason outside the change"


def _without_candidate(evidence: VerdictEvidence, tried: Sequence[ArmStart]) -> tuple[Verdict, str]:
    """What it means that no candidate start counts."""
    if evidence.claimed:
        return Verdict.FAILED, (
            "the candidate failed in every start, and the baseline in none; only the candidate's own "
            "log names a reason outside the change"
        )
    if tried:
        return _never_started(tried)
    if have_answers(evidence.baseline) and not evidence.complete:
        return Verdict.INCONCLUSIVE, "the budget was spent before the candidate had answered"
    what = _none_of(evidence.baseline, evidence.total)
    return Verdict.VOID, f"the baseline answered {what}, so the candidate was never started"


def void(evidence: VerdictEvidence) -> tuple[Verdict, str] | None:
    """Evidence that proves nothing, whatever the answers are."""
    for start in evidence.baseline:
        # A candidate that alone falls silent has changed. Only a silent baseline leaves nothing
        # to compare with.
        if start.answered and start.empty >= start.answered:
            return (
                Verdict.VOID,
                f"every answer of {start.name} is empty: there was no text to compare",
            )
    for start in evidence.starts:
        # A start that failed proves nothing anyway, and has a finding of its own.
        if start.proof_missing and not start.failed:
            return Verdict.VOID, f"{start.arm} {start.name}: {start.proof_missing[0]}"
    if not have_answers(evidence.baseline):
        return Verdict.VOID, f"the baseline answered {_none_of(evidence.baseline, evidence.total)}"
    return _different_prompts(evidence) or void_by_looks(evidence)


def _different_prompts(evidence: VerdictEvidence) -> tuple[Verdict, str] | None:
    """Servers that report different prompts (token counts): their answers cannot be compared."""
    # Many servers report nothing of a prompt. Then the walk over all requests would be in vain.
    if not any(start.prompts for start in evidence.starts):
        return None
    for request in evidence.requests:
        reason = _prompt_difference(evidence.starts, request)
        if reason is not None:
            return Verdict.VOID, reason
    return None


def _prompt_difference(starts: Sequence[ArmStart], request: str) -> str | None:
    """The first fact of a request's prompt that two starts report differently, in words."""
    first: dict[str, tuple[str, str]] = {}
    for start in starts:
        # A fact that a start does not report differs from nothing.
        for fact, value in start.prompts.get(request, {}).items():
            name, expected = first.setdefault(fact, (start.name, value))
            if value != expected:
                return (
                    f"the servers received different prompts: {fact} of request {request} is "
                    f"{expected} in {name} and {value} in {start.name}"
                )
    return None


def failing_candidate(evidence: VerdictEvidence) -> tuple[Verdict, str] | None:
    """A candidate that dies, or answers nothing, in every start, as the baseline does at times.

    If the baseline always works, the looks decide: a start without an answer is one like any other.
    """
    failed = failures(evidence.baseline)
    if working(evidence.candidate) or not failed:
        return None
    never = candidate_never_works(evidence)
    device = only_device(evidence.candidate, evidence.starts)
    if device is not None:
        return Verdict.INCONCLUSIVE, f"{never}, {_nothing_on(device)}"
    of_baseline = f"{failed} of {len(evidence.baseline)}"
    return Verdict.FAILED, f"{never}, and the baseline fails too, in {of_baseline}"


def _nothing_on(place: str) -> str:
    return f"and all of them ran on {place}, on which nothing works"


def _none_of(starts: Sequence[ArmStart], total: int) -> str:
    """That no request was answered in all passes, with how many were in some."""
    most = max((start.in_part for start in starts), default=0)
    if not most:
        return f"0 of {total} requests"
    return f"0 of {total} requests in all passes (at most {most} in some)"


def candidate_never_works(evidence: VerdictEvidence) -> str:
    """How the candidate fails in all of its starts, in words."""
    candidate = evidence.candidate
    what = f"answers {_none_of(candidate, evidence.total)}"
    if failures(candidate) == len(candidate):
        what = "fails"
    if len(candidate) == 1:
        return f"the candidate {what} in the only start that counts"
    return f"the candidate {what} in {len(candidate)} of {len(candidate)} starts"
