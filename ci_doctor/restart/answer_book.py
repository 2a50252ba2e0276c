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
from ci_doctor.restart.observed import AnswerComparison, BlankAnswer, Phase

_BLANKS_KEPT = 5


class _Voice(Struct):
    """The answers to one request in one part of the check. `texts` are their hashes."""

    texts: set[int]
    shortest: int
    longest: int
    blanks: int = 0
    count: int = 0

    def add(self, text: str, *, blank: bool) -> None:
        length = len(text)
        self.texts.add(hash(text))
        self.shortest = min(self.shortest, length)
        self.longest = max(self.longest, length)
        self.blanks += blank
        self.count += 1


def _voice() -> _Voice:
    return _Voice(texts=set(), shortest=1 << 62, longest=0)


class AnswerBook:
    """Takes every answer with the phase in which its request was sent."""

    def __init__(self) -> None:
        self._before: dict[str, _Voice] = {}
        self._after: dict[str, _Voice] = {}
        self._models: dict[Phase, set[str]] = {}
        self._blank: list[BlankAnswer] = []
        self._blank_count = 0

    def add(self, phase: Phase, name: str, answer: Canonical) -> None:
        """Take note of the answer to the request `name`."""
        model = answer.prompt_facts.get("model")
        if model is not None:
            self._models.setdefault(phase, set()).add(str(model))
        text = words_of(answer.output)
        blank = is_blank(answer.output)
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

    def _named(self, phase: Phase) -> tuple[str, ...]:
        return tuple(sorted(self._models.get(phase, ())))


def _different(voices: Iterable[_Voice]) -> int:
    """How many different texts there are over all requests."""
    texts: set[int] = set()
    for voice in voices:
        texts |= voice.texts
    return len(texts)
