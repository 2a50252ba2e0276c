# SPDX-License-Identifier: Apache-2.0
"""What the starts mean: a pure function from starts to a verdict. Nothing here knows a clock, a file or a process."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_doctor.correctness.compare import Kind, Start, classify, counted
from ci_doctor.correctness.settings import Arm
from ci_doctor.model.verdict import Verdict

# "Always the same" and "never the same" are words for two starts at least.
FEWEST = 2


class Decision(Struct, frozen=True, kw_only=True):
    """A verdict, its reason as one sentence, and the kind of every request."""

    verdict: Verdict
    reason: str
    kinds: Mapping[str, Kind] = {}

    def count(self, *kinds: Kind) -> int:
        """How many requests are of one of these kinds."""
        return sum(kind in kinds for kind in self.kinds.values())


def next_arm(starts: Sequence[Start], requests: Sequence[str], retries: int) -> Arm | None:
    """The arm to start next, or None where the verdict stands or every start was made.

    The arms take turns (A B A B …), so that a machine that drifts does so under both. `pass` and `flaky` end it early,
    and so does evidence that is void; a regression is decided at the end.
    """
    baseline = [start for start in starts if start.arm is Arm.BASELINE]
    candidate = [start for start in starts if start.arm is Arm.CANDIDATE]
    if not any(start.answered for start in counted(baseline)):
        # Without one working baseline start no candidate start can mean anything.
        return Arm.BASELINE if len(baseline) < FEWEST else None
    if not candidate:
        return Arm.CANDIDATE
    if decide(starts, requests, complete=False).verdict in {Verdict.PASS, Verdict.FLAKY, Verdict.VOID}:
        return None
    if len(baseline) < max(FEWEST, retries) and len(baseline) <= len(candidate):
        return Arm.BASELINE
    if len(candidate) < retries:
        return Arm.CANDIDATE
    return Arm.BASELINE if len(baseline) < FEWEST else None


def decide(starts: Sequence[Start], requests: Sequence[str], *, complete: bool) -> Decision:
    """The verdict over `starts`; `complete` says that every start of the schedule was made.

    The rules, in order: evidence that is missing, evidence that is void, a candidate that never works, then what the
    answers say.
    """
    kinds = classify(requests, starts)
    evidence = _Evidence(
        baseline=[start for start in counted(starts) if start.arm is Arm.BASELINE],
        candidate=[start for start in counted(starts) if start.arm is Arm.CANDIDATE],
        total=len(kinds),
        complete=complete,
        lost=any(start.outside for start in starts if start.arm is Arm.CANDIDATE),
    )
    verdict, reason = (
        _missing(evidence, {start.arm for start in starts})
        or _void(evidence, requests)
        or _failing_candidate(evidence)
        or _compare(evidence, Counter(kinds.values()))
    )
    return Decision(verdict=verdict, reason=reason, kinds=kinds)


class _Evidence(Struct, frozen=True, kw_only=True):
    """The starts that count, by arm; `total` is the number of requests, `lost` tells of candidate starts that do not count."""

    baseline: Sequence[Start]
    candidate: Sequence[Start]
    total: int
    complete: bool
    lost: bool

    @property
    def enough(self) -> bool:
        """Whether "always" and "never" may be said; of the candidate also where no more starts were wanted."""
        wanted_one = self.complete and not self.lost
        return len(self.baseline) >= FEWEST and (len(self.candidate) >= FEWEST or wanted_one)


def _missing(evidence: _Evidence, tried: set[Arm]) -> tuple[Verdict, str] | None:
    """Evidence that could not be gathered; `tried` are the arms that were started at all."""
    if not evidence.total or Arm.BASELINE not in tried:
        return Verdict.VOID, "nothing was answered, so there is nothing to compare"
    if all(start.failed for start in evidence.baseline):
        return Verdict.INFRA, "the baseline itself failed in every start"
    if evidence.candidate:
        return None
    if Arm.CANDIDATE in tried:
        return Verdict.INFRA, "the candidate could not be started, for a reason outside the change"
    if any(start.answered for start in evidence.baseline) and not evidence.complete:
        return Verdict.INCONCLUSIVE, "the budget was spent before the candidate had answered"
    return Verdict.VOID, "the baseline answered nothing, so the candidate was never started"


def _void(evidence: _Evidence, requests: Sequence[str]) -> tuple[Verdict, str] | None:
    """Evidence that proves nothing, whatever it looks like."""
    for start in evidence.baseline:
        # A candidate that alone falls silent has changed; only a silent baseline leaves nothing to compare with.
        if start.answered and start.empty >= start.answered:
            return Verdict.VOID, f"every answer of {start.name} is empty: nothing was said, so nothing was compared"
    starts = (*evidence.baseline, *evidence.candidate)
    for start in starts:
        if start.proof_missing and not start.failed:
            missing = start.proof_missing[0]
            return Verdict.VOID, f"nothing proves that the {start.arm}'s path ran in {start.name}: {missing}"
    if not any(start.answered for start in evidence.baseline):
        return Verdict.VOID, f"the baseline answered 0 of {evidence.total} requests"
    return _not_asked_the_same(starts, requests)


def _not_asked_the_same(starts: Sequence[Start], requests: Sequence[str]) -> tuple[Verdict, str] | None:
    """Servers that count different prompt tokens were not asked the same, and their answers cannot be compared."""
    for request in requests:
        told: dict[str, tuple[str, str]] = {}
        for start in starts:
            for fact, value in start.prompts.get(request, {}).items():
                name, first = told.setdefault(fact, (start.name, value))
                if value != first:
                    return Verdict.VOID, (
                        f"the servers were not asked the same: {fact} of request {request} is {first} in {name} "
                        f"and {value} in {start.name}"
                    )
    return None


def _failing_candidate(evidence: _Evidence) -> tuple[Verdict, str] | None:
    """A candidate that dies, or answers nothing, in every start."""
    if any(start.answered and not start.failed for start in evidence.candidate):
        return None
    starts = len(evidence.candidate)
    what = "fails" if all(start.failed for start in evidence.candidate) else f"answers 0 of {evidence.total} requests"
    failed = sum(start.failed for start in evidence.baseline)
    if failed:
        return Verdict.INFRA, (
            f"the candidate {what} in {starts} of {starts} starts, and the baseline fails too, "
            f"in {failed} of {len(evidence.baseline)}"
        )
    if not evidence.enough:
        return Verdict.INCONCLUSIVE, f"the candidate {what} in the only start that counts; no other could be made"
    baseline = len(evidence.baseline)
    return Verdict.REGRESSION, (
        f"the candidate {what} in {starts} of {starts} starts, and the baseline answered in {baseline} of {baseline}"
    )


def _compare(evidence: _Evidence, number: Mapping[Kind, int]) -> tuple[Verdict, str]:
    total, baseline, candidate = evidence.total, evidence.baseline, evidence.candidate
    if number[Kind.UNANSWERED]:
        return Verdict.VOID, f"{number[Kind.UNANSWERED]} of {total} requests were answered by no baseline start"
    if any(start.failed for start in baseline) or number[Kind.FLAKY] or number[Kind.OWN]:
        return _baseline_varies(evidence, number)
    if number[Kind.CHANGED]:
        return _changed(evidence, number[Kind.CHANGED])
    if number[Kind.SOMETIMES]:
        return Verdict.INCONCLUSIVE, (
            f"{number[Kind.SOMETIMES]} of {total} answers are only sometimes the baseline's: a rare flake of the "
            "environment, or nondeterminism that the candidate brings"
        )
    if failed := sum(start.failed for start in candidate):
        return (
            Verdict.INCONCLUSIVE,
            f"the candidate failed in {failed} of {len(candidate)} starts, the baseline in none",
        )
    return Verdict.PASS, (
        f"all {total} answers are the same, byte for byte, "
        f"in {len(baseline)} baseline and {len(candidate)} candidate starts"
    )


def _changed(evidence: _Evidence, changed: int) -> tuple[Verdict, str]:
    """The baseline is always the same; on some request the candidate never gave its answer."""
    if not evidence.enough:
        return Verdict.INCONCLUSIVE, "the arms differ, and the starts that would tell why could not be made"
    return Verdict.REGRESSION, (
        f"{changed} of {evidence.total} answers are never the baseline's in {len(evidence.candidate)} candidate starts; "
        f"the baseline is always the same in {len(evidence.baseline)}"
    )


def _baseline_varies(evidence: _Evidence, number: Mapping[Kind, int]) -> tuple[Verdict, str]:
    failed = sum(start.failed for start in evidence.baseline)
    itself = f"differs from itself on {number[Kind.FLAKY] + number[Kind.OWN]} of {evidence.total} requests"
    varies = f"the baseline {itself}" + (
        f" and failed in {failed} of {len(evidence.baseline)} starts" if failed else ""
    )
    if own := number[Kind.OWN] + number[Kind.CHANGED] + number[Kind.SOMETIMES]:
        return Verdict.INCONCLUSIVE, f"{varies}; the candidate shows outputs of its own on {own}"
    if any(start.failed for start in evidence.candidate):
        return Verdict.INCONCLUSIVE, f"{varies}; the candidate failed in some of its starts"
    return Verdict.FLAKY, f"{varies}; the candidate shows nothing of its own"
