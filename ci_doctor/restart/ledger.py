# SPDX-License-Identifier: Apache-2.0
"""Counts every reply by phase, and keeps answers that the baseline never gave. Pure."""

from typing import TYPE_CHECKING

from ci_doctor.load.canonical import Canonical, is_blank, text_of
from ci_doctor.restart.answer_book import AnswerBook, from_first_difference
from ci_doctor.restart.observed import Counts, DifferentAnswer, Phase

if TYPE_CHECKING:
    from ci_doctor.load.sending import Reply

# Errors that differ, of one phase: thousands of refused connections say the same.
_ERRORS_KEPT = 3
_DIFFERENCES_KEPT = 5


class Ledger:
    """Takes each reply with the phase in which its request was sent."""

    def __init__(self, *, compare: bool) -> None:
        self.different: list[DifferentAnswer] = []
        self.different_count = 0
        self.book = AnswerBook()
        self._compare = compare
        self._tallies: dict[Phase, _Tally] = {}
        # Digests decide what is the same; of the texts the first is kept, to show a difference.
        self._digests: dict[str, set[str]] = {}
        self._texts: dict[str, str] = {}

    def keep(self, phase: Phase, reply: "Reply") -> None:
        """Take note of a reply."""
        self._tally(phase).add(reply)
        if reply.answer is None:
            return
        self.book.add(phase, reply.id, reply.answer)
        if not self._compare or phase is Phase.CONTROL:
            return
        if phase is Phase.BASELINE:
            self._learn(reply.id, reply.answer)
        else:
            self._compare_with_baseline(phase, reply.id, reply.answer)

    def lasted(self, phase: Phase, seconds: float) -> None:
        """Requests were sent for so long."""
        self._tally(phase).seconds += seconds

    def passed(self, phase: Phase, answered: int, seconds: float) -> None:
        """One whole pass of the load is through."""
        tally = self._tally(phase)
        tally.seconds += seconds
        # A clock that has not moved gives no rate.
        rate = 0.0
        if seconds > 0:
            rate = answered / seconds
        tally.rates.append(rate)

    def ok(self, phase: Phase) -> int:
        """The good answers so far."""
        return self._tally(phase).ok

    @property
    def counts(self) -> dict[Phase, Counts]:
        """The phases in their order."""
        counts = {}
        for phase in Phase:
            if phase in self._tallies:
                counts[phase] = self._tallies[phase].counts()
        return counts

    @property
    def unstable(self) -> tuple[str, ...]:
        """The requests that the baseline itself answered differently."""
        names = []
        for name, digests in self._digests.items():
            if len(digests) > 1:
                names.append(name)
        return tuple(names)

    def _tally(self, phase: Phase) -> "_Tally":
        return self._tallies.setdefault(phase, _Tally())

    def _learn(self, name: str, answer: Canonical) -> None:
        digests = self._digests.setdefault(name, set())
        digests.add(answer.digest)
        self._texts.setdefault(name, text_of(answer.output))

    def _compare_with_baseline(self, phase: Phase, name: str, answer: Canonical) -> None:
        digests = self._digests.get(name, set())
        # With several, the baseline contradicts itself and proves nothing.
        if len(digests) != 1 or answer.digest in digests:
            return
        self.different_count += 1
        if len(self.different) >= _DIFFERENCES_KEPT or self._is_kept(name):
            return
        text = text_of(answer.output)
        before, after = from_first_difference(self._texts[name], text)
        self.different.append(DifferentAnswer(id=name, phase=phase, before=before, after=after))

    def _is_kept(self, name: str) -> bool:
        # The load is sent again and again: one request must not fill the list.
        return any(each.id == name for each in self.different)


class _Tally:
    def __init__(self) -> None:
        self.ok = 0
        self.failed = 0
        self.hung = 0
        self.empty = 0
        self.blank = 0
        self.seconds = 0.0
        self.rates: list[float] = []
        self.errors: list[str] = []

    def add(self, reply: "Reply") -> None:
        if reply.answer is not None:
            self.ok += 1
            self.empty += reply.answer.empty
            self.blank += is_blank(reply.answer.output)
        elif reply.hung:
            self.hung += 1
        else:
            self.failed += 1
        if reply.error is None or reply.error in self.errors:
            return
        if len(self.errors) < _ERRORS_KEPT:
            self.errors.append(reply.error)

    def counts(self) -> Counts:
        # The best pass: a busy machine is slow for a moment, a server that lost a worker stays so.
        rate = max(self.rates, default=None)
        return Counts(
            ok=self.ok,
            failed=self.failed,
            hung=self.hung,
            empty=self.empty,
            blank=self.blank,
            seconds=round(self.seconds, 3),
            rate=rate,
            errors=tuple(self.errors),
        )
