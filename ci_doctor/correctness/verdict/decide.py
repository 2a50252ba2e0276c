# SPDX-License-Identifier: Apache-2.0
"""Pure. What the starts mean: a function from starts to a verdict; and the proof of it, by one changed answer."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.results import Experiment, SameAnswers, StartResult
from ci_doctor.correctness.settings import Arm, EvidencePolicy, Policy, Rules, StartOrder
from ci_doctor.correctness.verdict.compare import classify, counted
from ci_doctor.correctness.verdict.differences import Differences, differences_of
from ci_doctor.correctness.verdict.looks import FEWEST, LookResult, look, no_look_can_reject
from ci_doctor.correctness.verdict.mix_test import patterns
from ci_doctor.correctness.verdict.starts import (
    Answer,
    ArmStart,
    DifferenceKind,
    failures,
    of_arm,
    outcomes,
    replaces_baseline,
    working,
)
from ci_doctor.correctness.verdict.validity import (
    Decision,
    OrderDoubt,
    VerdictEvidence,
    any_pair_risk,
    candidate_never_works,
    failing_candidate,
    false_alarm_risk,
    missing,
    remaining_risk,
    request_bounds,
    void,
)
from ci_doctor.errors import InfraError
from ci_doctor.load.answer_items import items_of, with_other_item
from ci_doctor.load.canonical import digest
from ci_doctor.model.outcome import Verdict, is_green
from ci_doctor.render.formatting import part_of

Kinds = Mapping[str, DifferenceKind]


def decide(
    starts: Sequence[ArmStart],
    requests: Sequence[str],
    rules: Rules,
    *,
    complete: bool,
    manner: str = "byte for byte",
) -> Decision:
    """The verdict over `starts`. `complete`: every start of the schedule was made.

    `manner` is how two answers are the same, in words.

    In this order: evidence that is missing, evidence that is void, a candidate that never works,
    then what the answers show.
    """
    usable = counted(starts)
    kinds = classify(requests, usable)
    evidence = VerdictEvidence(
        baseline=of_arm(usable, Arm.BASELINE),
        candidate=of_arm(usable, Arm.CANDIDATE),
        requests=requests,
        complete=complete,
        claimed=_claimed(starts),
        strict=rules.evidence is EvidencePolicy.STRICT,
        manner=manner,
    )
    early = missing(evidence, starts) or void(evidence) or failing_candidate(evidence)
    if early:
        verdict, reason = early
        return Decision(verdict=verdict, reason=reason, kinds=kinds)
    return replace(_compare(starts, evidence, kinds, rules), kinds=kinds)


def _claimed(starts: Sequence[ArmStart]) -> int:
    """Candidate starts that failed for an outside cause which only their own log reports.

    0 if a baseline start's log reports the like. A change that leaks memory or fills the disk
    produces exactly such a log, so the claim alone excuses nothing.
    """
    baseline, candidate = (
        sum(start.claimed for start in of_arm(starts, arm)) for arm in (Arm.BASELINE, Arm.CANDIDATE)
    )
    return 0 if baseline else candidate


def _across_agents(starts: Sequence[ArmStart], evidence: VerdictEvidence, rules: Rules) -> Decision:
    """The verdict over starts on agents of several kinds.

    It is green only within kinds that have both arms: what one kind answers excuses nothing on another. It is a
    regression by the test, whose labelings stay within the kinds.
    """
    told = _over_looks(starts, evidence, rules)
    if told.verdict is Verdict.REGRESSION:
        return told
    by_agent: dict[str, list[ArmStart]] = {start.agent: [] for start in evidence.starts}
    for start in starts:
        # One that was lost with its agent is of no kind.
        if start.agent in by_agent:
            by_agent[start.agent].append(start)
    # Enough starts are asked for below. The plan's blocks are of all kinds together.
    within = replace(rules, least_baselines=1, least_candidates=1, order=StartOrder.UNKNOWN)
    arms = {agent: {start.arm for start in counted(each)} for agent, each in by_agent.items()}
    both = [each for agent, each in by_agent.items() if arms[agent] == set(Arm)]
    decisions = [
        decide(each, evidence.requests, within, complete=evidence.complete, manner=evidence.manner)
        for each in both
    ]
    made = Counter(start.arm for each in both for start in counted(each))
    # Nothing excuses what the candidate gives where no baseline start ran.
    is_enough = (
        {Arm.CANDIDATE} not in arms.values()
        and made[Arm.BASELINE] >= rules.least_baselines
        and made[Arm.CANDIDATE] >= rules.least_candidates
    )
    if is_enough and all(is_green(each.verdict) for each in decisions):
        # That which excludes least stands for all.
        worst = max(decisions, key=lambda each: (each.verdict is Verdict.FLAKY, each.bound or 1.0))
        reason = f"within each of {len(both)} kinds of agents: {worst.reason}"
        return replace(worst, reason=reason, test=told.test)
    shares = sorted(by_agent.items(), key=lambda item: (-len(item[1]), item[0]))
    kinds = "; ".join(f"{len(each)} on {agent or 'this machine'}" for agent, each in shares)
    reason = told.reason
    if told.verdict is not Verdict.INCONCLUSIVE:
        reason = "the answers differ, and within no kind of agents the arms are shown to agree"
    return replace(
        told,
        verdict=Verdict.INCONCLUSIVE,
        reason=f"{reason}. The starts ran on agents of {len(shares)} kinds, and are compared within each "
        f"alone ({kinds}): ask for agents of one kind, such as {shares[0][0]}",
        risk=None,
        bound=None,
        bounds=(),
    )


def _compare(
    starts: Sequence[ArmStart], evidence: VerdictEvidence, kinds: Kinds, rules: Rules
) -> Decision:
    number = Counter(kinds.values())
    # First: what nobody answered cannot be equal.
    unanswered = number[DifferenceKind.UNANSWERED]
    if unanswered:
        return _unanswered(evidence, unanswered)
    if number[DifferenceKind.EQUAL] == evidence.total and not failures(evidence.starts):
        arms = _both_arms(evidence)
        reason = f"all {evidence.total} answers are the same, {evidence.manner}, in {arms}"
        return _green(Verdict.PASS, reason, evidence, rules)
    pair = _agreeing_pair(evidence) if rules.policy is Policy.ANY else None
    if pair is not None:
        return Decision(
            verdict=Verdict.PASS,
            reason=f"{' and '.join(pair)} answered alike; other starts did not, "
            "which the policy `any` lets pass",
            risk=any_pair_risk(rules.retries),
        )
    if len({start.agent for start in evidence.starts if not start.archived}) > 1:
        return _across_agents(starts, evidence, rules)
    return _over_looks(starts, evidence, rules)


def _over_looks(starts: Sequence[ArmStart], evidence: VerdictEvidence, rules: Rules) -> Decision:
    """The verdict over answers that differ."""
    differences = differences_of(starts, evidence.requests, rules, complete=evidence.complete)
    looks = look(starts, evidence.requests, rules, complete=evidence.complete)
    told = _told(evidence, rules, differences, looks)
    is_undecided = told.verdict is Verdict.INCONCLUSIVE and not evidence.complete
    if is_undecided and differences.stays_unlicensed:
        told = replace(told, is_final=no_look_can_reject(starts, evidence.requests, rules))
    return replace(told, test=told.test or looks.test, mended=differences.mended)


def _told(
    evidence: VerdictEvidence, rules: Rules, differences: Differences, looks: LookResult
) -> Decision:
    if looks.is_regression:
        if _only_mends(evidence, differences, looks):
            return Decision(
                verdict=Verdict.INCONCLUSIVE, reason=_mend(evidence, differences), is_final=True
            )
        return _regression(evidence, differences, looks)
    if differences.is_licensed:
        return _flaky(evidence, differences, rules)
    if differences.rarely_repeat and looks.doubt is None:
        reason = _nondeterministic(evidence, differences)
        return Decision(verdict=Verdict.NONDETERMINISTIC, reason=reason)
    reason = _undecided(evidence, differences, looks)
    return Decision(
        verdict=Verdict.INCONCLUSIVE,
        reason=reason,
        doubt=looks.doubt,
        is_final=looks.doubt is not None,
    )


def _only_mends(evidence: VerdictEvidence, differences: Differences, looks: LookResult) -> bool:
    """Whether all that the test rejects on is that the candidate varies less than the baseline."""
    carried = set(looks.test.disputed if looks.test else ())
    is_worse = differences.own or differences.disputed or failures(evidence.candidate)
    return not is_worse and bool(carried) and carried <= set(differences.mended)


def _mend(evidence: VerdictEvidence, differences: Differences) -> str:
    return (
        f"{_varies(evidence, differences)}; on {len(differences.mended)} of these the candidate "
        f"gives one answer in all of its {len(evidence.candidate)} starts, the one that the baseline "
        "gives most often: it mends the flake, or makes that answer permanent"
    )


def _unanswered(evidence: VerdictEvidence, unanswered: int) -> Decision:
    """Some requests have no baseline answer: void if that is final, else inconclusive."""
    requests = part_of(unanswered, evidence.total, "request", past=True)
    if evidence.complete or len(evidence.baseline) > FEWEST:
        return Decision(verdict=Verdict.VOID, reason=f"{requests} answered by no baseline start")
    return Decision(
        verdict=Verdict.INCONCLUSIVE, reason=f"{requests} not yet answered by a baseline start"
    )


def _green(verdict: Verdict, reason: str, evidence: VerdictEvidence, rules: Rules) -> Decision:
    """`pass` or `flaky`, once enough starts were made; with the risk that remains."""
    made = len(evidence.candidate)
    today = sum(not start.archived for start in evidence.baseline)
    missing = None
    # Its own log alone says so, and a change that leaks memory writes the same.
    if evidence.claimed:
        missing = (
            f"but {evidence.claimed} candidate starts failed, by their own logs "
            "for a reason outside the change, and no baseline start did"
        )
    elif made < rules.least_candidates:
        missing = (
            f"{rules.least_candidates} candidate starts are required, and {made} could be made"
        )
    elif not replaces_baseline(evidence.baseline, rules) and today < rules.least_baselines:
        missing = f"{rules.least_baselines} baseline starts are required, and {today} could be made"
    if missing:
        return Decision(verdict=Verdict.INCONCLUSIVE, reason=f"{reason}; {missing}")
    bounds = request_bounds(
        patterns(evidence.starts, evidence.requests),
        range(len(evidence.baseline)),
        range(len(evidence.baseline), len(evidence.starts)),
    )
    return Decision(
        verdict=verdict,
        reason=reason,
        risk=remaining_risk(bounds),
        bound=bounds[0].bound if bounds[0].bound < 1 else None,
        bounds=bounds,
    )


def _flaky(evidence: VerdictEvidence, differences: Differences, rules: Rules) -> Decision:
    """Every difference is licensed: the environment makes it, not the change."""
    reason = _varies(evidence, differences)
    if failures(evidence.starts):
        reason = f"{reason}; {_failed_starts(evidence)}"
    if differences.own:
        reason = (
            f"{reason}; what the candidate alone shows, on {differences.own}, is no more than "
            f"chance makes ({_share(differences.own_p)} of cases)"
        )
    else:
        reason = f"{reason}; the candidate shows nothing of its own"
    if differences.mended:
        reason = (
            f"{reason}, and never varies on {len(differences.mended)} of these in "
            f"{len(evidence.candidate)} starts"
        )
    return _green(Verdict.FLAKY, reason, evidence, rules)


def _regression(evidence: VerdictEvidence, differences: Differences, looks: LookResult) -> Decision:
    test = looks.test
    assert test is not None  # noqa: S101 - a regression is declared by a test
    if not working(evidence.candidate):
        reason = (
            f"{candidate_never_works(evidence)}, and the baseline answered in "
            f"{len(evidence.baseline)} of {len(evidence.baseline)}"
        )
        return Decision(verdict=Verdict.REGRESSION, reason=reason, risk=false_alarm_risk(test))
    chance = f"chance alone does so in {_share(test.p)} of cases"
    carried = differences.disputed or test.disputed
    if differences.disputed:
        what = _never_as_baseline(carried, evidence)
    elif carried:
        what = (
            f"on {len(carried)} of {evidence.total} requests the candidate's mix of answers is "
            "another than the baseline's"
        )
    else:
        what = (
            "the candidate fails more requests, or gives more answers unlike those of most starts"
        )
    return Decision(
        verdict=Verdict.REGRESSION,
        reason=f"{what}, in {_both_arms(evidence)}: {chance}",
        test=replace(test, disputed=tuple(carried)),
        risk=false_alarm_risk(test),
    )


def _never_as_baseline(requests: Collection[str], evidence: VerdictEvidence) -> str:
    # Of several passes a start may share some answers with the baseline: the test compares all of them together.
    never = part_of(len(requests), evidence.total, "request")
    return f"{never} never answered as in a baseline start"


def _undecided(evidence: VerdictEvidence, differences: Differences, looks: LookResult) -> str:
    """Why nothing is decided, in one sentence."""
    what = f"{_what_differs(evidence, differences)}, in {_both_arms(evidence)}"
    if looks.doubt is OrderDoubt.TIME:
        return f"{what}: the starts of the two arms lie apart in time, and time alone explains it"
    if looks.doubt is OrderDoubt.UNKNOWN:
        return (
            f"{what}: nothing records the order of the starts, and time alone may explain it, if one "
            "arm was started after the other"
        )
    if looks.test is None:
        return f"{what}: too few to tell a change from chance"
    return (
        f"{what}: chance alone does so in {_share(looks.test.p)} of cases, "
        f"more than {_share(looks.test.level)}"
    )


def _what_differs(evidence: VerdictEvidence, differences: Differences) -> str:
    if not working(evidence.candidate):
        return candidate_never_works(evidence)
    if differences.mended and differences.lost == len(differences.mended) and not differences.own:
        return _mend(evidence, differences)
    if differences.disputed:
        return _never_as_baseline(differences.disputed, evidence)
    if differences.own:
        what = "shows outputs of its own on" if _has_own(evidence) else "leaves unanswered at times"
        return f"{_varies(evidence, differences)}; the candidate {what} {differences.own}"
    if failures(evidence.candidate):
        return _failed_starts(evidence)
    return (
        f"{_varies(evidence, differences)}; on {differences.lost} the candidate never gives "
        "what the baseline gave first"
    )


def _nondeterministic(evidence: VerdictEvidence, differences: Differences) -> str:
    never = len(differences.disputed)
    often = "no start ever gives an answer twice"
    if not differences.never_repeat:
        often = "most starts give an answer that no other start of their arm gives"
    return (
        f"on {never} of {evidence.total} requests {often}, in {_both_arms(evidence)}: "
        f"a bug cannot be told from that; {evidence.total - never} can still be compared"
    )


def _has_own(evidence: VerdictEvidence) -> bool:
    """Whether a candidate start gives an answer that no baseline start gives, rather than none."""
    given = {
        (name, answer) for start in evidence.baseline for name, answer in start.answers.items()
    }
    return any(
        answer is not None and (name, answer) not in given
        for start in evidence.candidate
        for name, answer in start.answers.items()
    )


def _varies(evidence: VerdictEvidence, differences: Differences) -> str:
    if differences.varied:
        return (
            f"the baseline differs from itself on {differences.varied} of {evidence.total} requests"
        )
    return f"the baseline is always the same in {len(evidence.baseline)} starts"


def _failed_starts(evidence: VerdictEvidence) -> str:
    baseline, candidate = (
        f"{failures(starts)} of {len(starts)} starts"
        for starts in (evidence.baseline, evidence.candidate)
    )
    return f"the candidate failed in {candidate}, the baseline in {baseline}"


def _both_arms(evidence: VerdictEvidence) -> str:
    return f"{len(evidence.baseline)} baseline and {len(evidence.candidate)} candidate starts"


def _share(value: float) -> str:
    """`5.4%`: one digit more than the level it is compared with."""
    if value < 0.001:
        return f"{value:.2g}"
    return f"{100 * value:.3g}%"


def _agreeing_pair(evidence: VerdictEvidence) -> tuple[str, str] | None:
    """A start of each arm that answered everything, and all alike."""
    for candidate in evidence.candidate:
        is_whole = not candidate.failed and None not in candidate.answers.values()
        for baseline in evidence.baseline:
            if is_whole and candidate.answers == baseline.answers:
                return baseline.name, candidate.name
    return None


# --- the proof of the comparison: one answer is changed in memory, and must be detected ---


# One more mark than a changed answer can collide with in practice: the first is taken whose answer
# no other start gave.
_MARKS = tuple(map(chr, range(0x2600, 0x2640)))
# The keys of an answer on the way to its text.
_WAY_TO_TEXT = ("choices", "message", "text", "content")


def canary_detected(experiment: Experiment, requests: Sequence[str]) -> bool:
    """Whether the comparison notices a candidate answer that is changed by one character.

    True if there is no answer to change. False if the answer can no longer be read: that proves
    nothing.
    """
    candidates = (
        each
        for each in experiment.compared
        if each.start.arm is Arm.CANDIDATE and not each.start.outside and each.start.answered
    )
    result = next(candidates, None)
    if result is None:
        return True
    start = result.start
    request = next(request for request, answer in start.answers.items() if answer)
    # Any answer will do: all of them go through the same comparison.
    number, first = next(iter(result.digests[request].items()))
    try:
        outcome_of = _outcomes(experiment, result, request, number)
        output = experiment.outputs[first]
        taken = {*outcomes(experiment.starts, request), outcome_of(output)}
        given = (outcome_of(_changed_answer(output, mark)) for mark in _MARKS)
        changed = next((each for each in given if each not in taken), None)
    except (KeyError, InfraError):
        return False
    if changed is None:
        return False
    flipped = replace(start, answers={**start.answers, request: changed})
    starts = [flipped if each is start else each for each in experiment.starts]
    kind = classify([request], starts)[request]
    # Under the policy `any` another pair of starts may agree, rightly.
    strict = replace(experiment.rules, policy=Policy.CONTROL)
    verdict = decide(starts, requests, strict, complete=True).verdict
    return kind is not DifferenceKind.EQUAL and verdict is not Verdict.PASS


def _outcomes(
    experiment: Experiment, result: StartResult, request: str, number: int
) -> Callable[[Mapping[str, Any]], Answer]:
    """The outcome of a start at the gate's level if its answer in one pass had been another."""
    comparison = experiment.comparison
    # Only under a limit does the outcome of one start depend on those before it.
    before: Sequence[StartResult] = ()
    if comparison.limit is not None:
        before = list(takewhile(lambda each: each is not result, experiment.compared))
    known = {
        each: experiment.outputs[each]
        for start in (*before, result)
        for each in start.digests.get(request, {}).values()
    }

    def outcome_of(changed: Mapping[str, Any]) -> Answer:
        own = digest(dict(changed))
        same = SameAnswers(comparison, {**known, own: changed})
        for each in before:
            same.outcome(request, each.digests.get(request, {}))
        return same.outcome(request, {**result.digests[request], number: own})

    return outcome_of


def _changed_answer(output: Mapping[str, Any], mark: str) -> Mapping[str, Any]:
    if items_of(output):
        return with_other_item(output, ord(mark))
    changed: dict[str, Any] = _changed(dict(output), mark)
    return changed


def _changed(value: Any, mark: str) -> Any:
    """A copy in which the last character of the first text is `mark`; without text it is added."""
    if isinstance(value, str):
        return f"{value[:-1]}{mark}"
    if isinstance(value, dict) and value:
        key = _key_to_text(value)
        return {**value, key: _changed(value[key], mark)}
    if isinstance(value, list) and value:
        first, *rest = value
        return [_changed(first, mark), *rest]
    return [value, mark]


def _key_to_text(value: Mapping[str, Any]) -> str:
    """The key that leads to the text of an answer; without one, the first key."""
    # A changed `index` or `role` would be a change of form, not of an answer.
    return next((key for key in _WAY_TO_TEXT if value.get(key)), next(iter(value)))
