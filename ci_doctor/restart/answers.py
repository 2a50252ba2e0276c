# SPDX-License-Identifier: Apache-2.0
"""Keeps requests, answers and what else is observed during a check. Pure."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from ci_doctor.load.canonical import Canonical, is_blank
from ci_doctor.load.looks import words_of
from ci_doctor.model.facts.restart_check import (
    AnswerComparison,
    BlankAnswer,
    Counts,
    DifferentAnswer,
    Observation,
    Phase,
    RestartEnding,
)
from ci_doctor.services.instance import ServiceEvent

if TYPE_CHECKING:
    from ci_doctor.load.sending import Reply
    from ci_doctor.machine.gpus import GpuMemory


_BLANKS_KEPT = 5
_UNKEPT_SHOWN = 5
# Characters of each text that are shown of a difference, and how many of them stand before it.
_LONGEST_SHOWN = 300
_SHOWN_BEFORE = 40
# Of a text so much is kept to show a difference: a load may hold thousands of long answers.
_LONGEST_KEPT = 16_000

# Threads that wait for each other's CPU may wait as long as a pass takes.
_LEAST_FREE = 0.05


class _Voice(Struct):
    """The answers to one request in one part of the check. `texts` are their hashes."""

    texts: set[int]
    digests: set[str]
    shortest: int
    longest: int
    last: str = ""
    blanks: int = 0
    count: int = 0

    def add(self, answer: Canonical) -> None:
        text = words_of(answer.output)
        self.texts.add(hash(text))
        self.digests.add(answer.digest)
        self.last = text[:_LONGEST_KEPT]
        self.shortest = min(self.shortest, len(text))
        self.longest = max(self.longest, len(text))
        self.blanks += is_blank(answer.output)
        self.count += 1


def _voice() -> _Voice:
    return _Voice(texts=set(), digests=set(), shortest=1 << 62, longest=0)


def _different(voices: Iterable[_Voice]) -> int:
    """How many different texts there are over all requests."""
    texts: set[int] = set()
    for voice in voices:
        texts |= voice.texts
    return len(texts)


def chance_of_unkept(before: int, after: int) -> float:
    """How many requests look unkept by chance for each that is seen to vary: at most so many.

    A request gets its other text with a probability p each time, at `before` answers and then at
    `after` ones. It looks unkept with (1-p)^before · p^after, and is seen to vary with
    1 - (1-p)^before - p^before. The result is the greatest ratio over p.
    """
    ratios = []
    for percent in range(1, 100):
        p = percent / 100
        varies = 1 - (1 - p) ** before - p**before
        if varies > 0:
            ratios.append((1 - p) ** before * p**after / varies)
    return max(ratios, default=1.0)


def from_first_difference(before: str, after: str) -> tuple[str, str]:
    """Both texts from a little before their first difference."""
    same = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        same += 1
    start = max(0, same - _SHOWN_BEFORE)
    end = start + _LONGEST_SHOWN
    return before[start:end], after[start:end]


# Errors that differ, of one phase: thousands of refused connections say the same.
_ERRORS_KEPT = 3
_DIFFERENCES_KEPT = 5


class Ledger:
    """Takes each reply with the phase in which its request was sent.

    compare: whether an answer since the kill must be one that the baseline gave.
    """

    def __init__(self, *, compare: bool) -> None:
        self.different: list[DifferentAnswer] = []
        self.different_count = 0
        self._compare = compare
        self._counts: dict[Phase, Counts] = {}
        self._controls: dict[str, _Voice] = {}
        self._control_starts = 0
        self._before: dict[str, _Voice] = {}
        self._after: dict[str, _Voice] = {}
        self._models: dict[Phase, set[str]] = {}
        self._blank: list[BlankAnswer] = []
        self._blank_count = 0

    def begin_control(self) -> None:
        """One more control start gets the load, once."""
        self._control_starts += 1

    def keep(self, phase: Phase, reply: "Reply") -> None:
        """Take note of a reply."""
        counts = self._of(phase)
        if reply.error is not None and reply.error not in counts.errors:
            counts.errors = (*counts.errors, reply.error)[:_ERRORS_KEPT]
        answer = reply.answer
        if answer is None:
            counts.hung += reply.hung
            counts.failed += not reply.hung
            return
        counts.ok += 1
        counts.empty += answer.empty
        counts.blank += is_blank(answer.output)
        model = answer.prompt_facts.get("model")
        if model is not None:
            self._models.setdefault(phase, set()).add(str(model))
        voices = {
            Phase.CONTROL: self._controls,
            Phase.BASELINE: self._before,
            Phase.AFTER: self._after,
        }.get(phase)
        if voices is not None:
            voices.setdefault(reply.id, _voice()).add(answer)
        before = self._before.get(reply.id)
        if before is not None and phase not in {Phase.CONTROL, Phase.BASELINE}:
            self._judge(phase, reply.id, answer, before)

    def lasted(self, phase: Phase, seconds: float) -> None:
        """Requests were sent for so long."""
        counts = self._of(phase)
        counts.seconds = round(counts.seconds + seconds, 3)

    def passed(self, phase: Phase, answered: int, seconds: float, waited_s: float = 0.0) -> None:
        """One whole pass of the load is through; a thread waited `waited_s` of its seconds for a CPU."""
        counts = self._of(phase)
        counts.seconds = round(counts.seconds + seconds, 3)
        # The best pass: a busy machine is slow for a moment, a server that lost a worker stays so.
        # A clock that has not moved gives no rate.
        if seconds > 0:
            counts.rate = max(counts.rate or 0.0, answered / seconds)
            free_s = max(seconds - waited_s, seconds * _LEAST_FREE)
            counts.free_rate = max(counts.free_rate or 0.0, answered / free_s)
        else:
            counts.rate = counts.rate or 0.0

    def ok(self, phase: Phase) -> int:
        """The good answers so far."""
        return self._of(phase).ok

    @property
    def counts(self) -> dict[Phase, Counts]:
        """The phases in their order."""
        return {phase: self._counts[phase] for phase in Phase if phase in self._counts}

    @property
    def unstable(self) -> tuple[str, ...]:
        """The requests that the baseline itself answered differently."""
        if not self._compare:
            return ()
        return tuple(name for name, voice in self._before.items() if len(voice.digests) > 1)

    def comparison(self) -> AnswerComparison:
        """What came of it."""
        both = [name for name in self._before if name in self._after]
        agreed = [name for name in both if self._has_agreed(name)]
        unkept = [name for name in agreed if self._is_unkept(name)]
        noisy = [name for name in both if self._is_noisy(name)]
        return AnswerComparison(
            requests=len(self._before),
            blank=tuple(self._blank),
            blank_count=self._blank_count,
            different_before=_different(self._before.values()),
            different_after=_different(self._after.values()),
            compared=len(both),
            # Each answer after has less than half of the characters of each before.
            shorter=sum(
                2 * self._after[name].longest < self._before[name].shortest for name in both
            ),
            steady=sum(map(self._is_steady, both)),
            changed=sum(
                self._is_steady(name) and not self._after[name].texts <= self._before[name].texts
                for name in both
            ),
            controls=self._control_starts,
            restless=sum(map(self._is_restless, self._before)),
            agreed=len(agreed),
            unkept=tuple(map(self._difference, unkept[:_UNKEPT_SHOWN])),
            unkept_count=len(unkept),
            noisy=len(noisy),
            chance=round(sum(map(self._chance, noisy)), 6),
            models_before=tuple(sorted(self._models.get(Phase.BASELINE, ()))),
            models_after=tuple(sorted(self._models.get(Phase.AFTER, ()))),
        )

    def _is_steady(self, name: str) -> bool:
        # One answer is always the same as itself.
        voice = self._before[name]
        return voice.count > 1 and len(voice.texts) == 1

    def _has_agreed(self, name: str) -> bool:
        """Whether the request got one text in each control start and in every pass of the baseline."""
        control = self._controls.get(name)
        if control is None or control.count < self._control_starts:
            return False
        return self._is_steady(name) and control.texts == self._before[name].texts

    def _is_restless(self, name: str) -> bool:
        control = self._controls.get(name)
        return (
            control is not None
            and self._is_steady(name)
            and control.texts != self._before[name].texts
        )

    def _is_unkept(self, name: str) -> bool:
        # One pass alone may be an accident, as in the baseline.
        after = self._after[name]
        return after.count > 1 and after.texts.isdisjoint(self._before[name].texts)

    def _is_noisy(self, name: str) -> bool:
        """Whether it varied before the kill, and not each time: it looks steady now and then."""
        control = self._controls.get(name, _voice())
        texts = self._before[name].texts | control.texts
        return 1 < len(texts) < self._before[name].count + control.count

    def _chance(self, name: str) -> float:
        control = self._controls.get(name, _voice())
        return chance_of_unkept(self._before[name].count + control.count, self._after[name].count)

    def _difference(self, name: str) -> DifferentAnswer:
        before, after = from_first_difference(self._before[name].last, self._after[name].last)
        return DifferentAnswer(id=name, phase=Phase.AFTER, before=before, after=after)

    def _of(self, phase: Phase) -> Counts:
        return self._counts.setdefault(phase, Counts())

    def _judge(self, phase: Phase, name: str, answer: Canonical, before: "_Voice") -> None:
        """Take note of what an answer since the kill lacks that `before` had."""
        if is_blank(answer.output) and not before.blanks:
            self._blank_count += 1
            if len(self._blank) < _BLANKS_KEPT and name not in {each.id for each in self._blank}:
                self._blank.append(BlankAnswer(id=name, phase=phase))
        # With several, the baseline contradicts itself and proves nothing.
        if not self._compare or len(before.digests) != 1 or answer.digest in before.digests:
            return
        self.different_count += 1
        # The load is sent again and again: one request must not fill the list.
        known = {each.id for each in self.different}
        if len(self.different) < _DIFFERENCES_KEPT and name not in known:
            earlier, now = from_first_difference(before.last, words_of(answer.output))
            self.different.append(DifferentAnswer(id=name, phase=phase, before=earlier, after=now))


class RestartProgress(Struct, frozen=True, kw_only=True):
    """An event of a service, or how far a phase has come, in words. `title` names the restart in a sweep."""

    phase: Phase
    title: str = ""
    event: ServiceEvent | None = None
    text: str = ""


class Notes:
    """The observation so far, and the requests in `ledger`. `phase` is what is going on.

    `gpu_before` is what the GPUs held before anything was started; None if they are not checked.
    """

    def __init__(
        self, requests: int, on_progress: Callable[[RestartProgress], None], *, compare: bool
    ) -> None:
        self.phase = Phase.BASELINE
        self.gpu_before: tuple[GpuMemory, ...] | None = None
        self.ledger = Ledger(compare=compare)
        self._observation = Observation(requests=requests)
        self._on_progress = on_progress

    def note(self, **fields: Any) -> None:
        """Set fields of the observation."""
        self._observation = structs.replace(self._observation, **fields)

    def say(self, text: str) -> None:
        """Report how far the phase has come."""
        self._on_progress(RestartProgress(phase=self.phase, text=text))

    def event(self, event: ServiceEvent) -> None:
        """Report an event of a service."""
        self._on_progress(RestartProgress(phase=self.phase, event=event))

    def observation(self, ending: RestartEnding) -> Observation:
        """All of it."""
        # Only now, and not with each reply: a load has thousands of them.
        ledger = self.ledger
        return structs.replace(
            self._observation,
            ending=ending,
            phases=ledger.counts,
            different=tuple(ledger.different),
            different_count=ledger.different_count,
            unstable=ledger.unstable,
            answers=ledger.comparison(),
        )
