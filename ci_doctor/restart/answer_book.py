# SPDX-License-Identifier: Apache-2.0
"""Compares the answers after a restart with those before, request by request. Pure.

Answers may be sampled, so other words are no fault by themselves. A fault is what no sampling
explains: a request that always got words and gets none, one answer to all requests, answers cut to
less than half, another model.
"""

from collections.abc import Iterable

from msgspec import Struct

from ci_doctor.load.canonical import Canonical, is_blank
from ci_doctor.load.looks import words_of
from ci_doctor.restart.observed import AnswerComparison, BlankAnswer, DifferentAnswer, Phase

_BLANKS_KEPT = 5
_UNKEPT_SHOWN = 5
# Characters of each text that are shown of a difference, and how many of them stand before it.
_LONGEST_SHOWN = 300
_SHOWN_BEFORE = 40
# Of a text so much is kept to show a difference: a load may hold thousands of long answers.
_LONGEST_KEPT = 4_000


class _Voice(Struct):
    """The answers to one request in one part of the check. `texts` are their hashes."""

    texts: set[int]
    shortest: int
    longest: int
    last: str = ""
    blanks: int = 0
    count: int = 0

    def add(self, text: str, *, blank: bool) -> None:
        length = len(text)
        self.texts.add(hash(text))
        self.last = text[:_LONGEST_KEPT]
        self.shortest = min(self.shortest, length)
        self.longest = max(self.longest, length)
        self.blanks += blank
        self.count += 1


def _voice() -> _Voice:
    return _Voice(texts=set(), shortest=1 << 62, longest=0)


class AnswerBook:
    """Takes every answer with the phase in which its request was sent."""

    def __init__(self) -> None:
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

    def add(self, phase: Phase, name: str, answer: Canonical) -> None:
        """Take note of the answer to the request `name`."""
        model = answer.prompt_facts.get("model")
        if model is not None:
            self._models.setdefault(phase, set()).add(str(model))
        text = words_of(answer.output)
        blank = is_blank(answer.output)
        if phase is Phase.CONTROL:
            self._controls.setdefault(name, _voice()).add(text, blank=blank)
            return
        if phase is Phase.BASELINE:
            self._before.setdefault(name, _voice()).add(text, blank=blank)
            return
        if blank and self._always_had_words(name):
            self._note_blank(phase, name)
        if phase is Phase.AFTER:
            self._after.setdefault(name, _voice()).add(text, blank=blank)

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
            shorter=sum(map(self._is_shorter, both)),
            steady=sum(map(self._is_steady, both)),
            changed=sum(map(self._has_changed, both)),
            controls=self._control_starts,
            restless=sum(map(self._is_restless, self._before)),
            agreed=len(agreed),
            unkept=tuple(map(self._difference, unkept[:_UNKEPT_SHOWN])),
            unkept_count=len(unkept),
            noisy=len(noisy),
            chance=round(sum(map(self._chance, noisy)), 6),
            models_before=self._named(Phase.BASELINE),
            models_after=self._named(Phase.AFTER),
        )

    def _always_had_words(self, name: str) -> bool:
        voice = self._before.get(name)
        return voice is not None and not voice.blanks

    def _note_blank(self, phase: Phase, name: str) -> None:
        self._blank_count += 1
        known = any(each.id == name for each in self._blank)
        if not known and len(self._blank) < _BLANKS_KEPT:
            self._blank.append(BlankAnswer(id=name, phase=phase))

    def _is_shorter(self, name: str) -> bool:
        """Whether each answer after has less than half of the characters of each before."""
        return 2 * self._after[name].longest < self._before[name].shortest

    def _is_steady(self, name: str) -> bool:
        # One answer is always the same as itself.
        voice = self._before[name]
        return voice.count > 1 and len(voice.texts) == 1

    def _has_changed(self, name: str) -> bool:
        return self._is_steady(name) and not self._after[name].texts <= self._before[name].texts

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

    def _named(self, phase: Phase) -> tuple[str, ...]:
        return tuple(sorted(self._models.get(phase, ())))


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
