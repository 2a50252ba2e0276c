# SPDX-License-Identifier: Apache-2.0
"""Keeps the count of every reply by phase, and of answers that the baseline never gave. Pure."""

from ci_doctor.load.canonical import Canonical, text_of
from ci_doctor.load.sending import Reply
from ci_doctor.restart.observed import Counts, DifferentAnswer, Phase

_ERRORS_KEPT = 3
_DIFFERENCES_KEPT = 5
_LONGEST_SHOWN = 300


class Ledger:
    """Give it each reply with the phase in which its request was sent."""

    def __init__(self, *, compare: bool) -> None:
        self.different: list[DifferentAnswer] = []
        self.different_count = 0
        self._compare = compare
        self._tallies: dict[Phase, _Tally] = {}
        self._digests: dict[str, set[str]] = {}
        self._texts: dict[str, str] = {}

    def keep(self, phase: Phase, reply: Reply) -> None:
        """Take note of a reply."""
        self._tally(phase).add(reply)
        if self._compare and reply.answer is not None:
            self._hold_against_baseline(phase, reply.id, reply.answer)

    def lasted(self, phase: Phase, seconds: float) -> None:
        """Requests were sent for so long."""
        self._tally(phase).seconds += seconds

    def passed(self, phase: Phase, answered: int, seconds: float) -> None:
        """One whole pass of the load is through."""
        tally = self._tally(phase)
        tally.seconds += seconds
        tally.rates.append(answered / seconds if seconds > 0 else 0.0)

    def ok(self, phase: Phase) -> int:
        """The good answers so far."""
        return self._tally(phase).ok

    @property
    def counts(self) -> dict[Phase, Counts]:
        """The phases in their order."""
        return {phase: self._tallies[phase].counts() for phase in Phase if phase in self._tallies}

    @property
    def unstable(self) -> tuple[str, ...]:
        """The requests that the baseline itself answered differently."""
        return tuple(identity for identity, digests in self._digests.items() if len(digests) > 1)

    def _tally(self, phase: Phase) -> "_Tally":
        return self._tallies.setdefault(phase, _Tally())

    def _hold_against_baseline(self, phase: Phase, identity: str, answer: Canonical) -> None:
        known = self._digests.setdefault(identity, set())
        if phase is Phase.BASELINE:
            known.add(answer.digest)
            self._texts.setdefault(identity, text_of(answer.output))
        elif len(known) == 1 and answer.digest not in known:
            self.different_count += 1
            if len(self.different) < _DIFFERENCES_KEPT and all(
                each.id != identity for each in self.different
            ):
                before, after = _parting(self._texts[identity], text_of(answer.output))
                self.different.append(
                    DifferentAnswer(id=identity, phase=phase, before=before, after=after)
                )


class _Tally:
    def __init__(self) -> None:
        self.ok = self.failed = self.hung = self.empty = 0
        self.seconds = 0.0
        self.rates: list[float] = []
        self.errors: list[str] = []

    def add(self, reply: Reply) -> None:
        if reply.answer is not None:
            self.ok += 1
            self.empty += reply.answer.empty
        elif reply.hung:
            self.hung += 1
        else:
            self.failed += 1
        if (
            reply.error is not None
            and len(self.errors) < _ERRORS_KEPT
            and reply.error not in self.errors
        ):
            self.errors.append(reply.error)

    def counts(self) -> Counts:
        return Counts(
            ok=self.ok,
            failed=self.failed,
            hung=self.hung,
            empty=self.empty,
            seconds=round(self.seconds, 3),
            rate=max(self.rates) if self.rates else None,
            errors=tuple(self.errors),
        )


def _parting(before: str, after: str) -> tuple[str, str]:
    """Both texts from a little before where they part."""
    same = next(
        (at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None
    )
    start = max(0, (same if same is not None else min(len(before), len(after))) - 40)
    return before[start : start + _LONGEST_SHOWN], after[start : start + _LONGEST_SHOWN]
