# SPDX-License-Identifier: Apache-2.0
"""Gathers the samples of one start by digests, and makes its outcomes at the gate's level. Pure.

Being near is not transitive: 0.1 is near 0.2, 0.2 is near 0.3, and 0.1 may not be near 0.3. So the
answers to a request are taken in the order in which they were given. The first is an outcome. Each
later one belongs to the earliest outcome whose first answer it is near, or else is a new outcome.
The labels of the arms play no part in it, so a permutation of the labels leaves it as it is.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import AnswerLevel, Arm, Comparison, NumberLimit
from ci_doctor.correctness.verdict.starts import Answer, ArmStart
from ci_doctor.load.answer_items import AnswerParts, parts
from ci_doctor.load.canonical import digest, encode
from ci_doctor.load.looks import FEWEST_PROMPTS, LooksOfAnswers, words_of
from ci_doctor.load.prompts import is_free, is_greedy
from ci_doctor.load.requests import Request
from ci_doctor.model.facts.correctness import ControlOutcome

# From a request to the digests of its answers by pass, which count from 1.
PassDigests = dict[str, dict[int, str]]


class LevelDigests(Struct, frozen=True, kw_only=True):
    """SHA-256 of the words, and of words and tokens together."""

    words: str
    tokens: str


def level_digests(output: Mapping[str, Any], whole: str | None = None) -> LevelDigests:
    """The digests of a canonical output; `whole` is its own digest, if it is known.

    An answer of numbers alone (a vector) has no other words: at each level it is all that it holds.
    """
    divided = parts(output)
    if divided.wordless:
        own = whole or digest(output)
        return LevelDigests(words=own, tokens=own)
    return LevelDigests(words=digest(divided.words), tokens=digest([divided.words, divided.tokens]))


def outcome(digests: Mapping[int, str], passes: int) -> Answer:
    """A request's outcome over its passes; None if a pass has no answer.

    The digest itself for one pass, a digest of the digests for more.
    """
    if len(digests) < passes:
        return None
    # By the number of the pass, whatever the order of arrival.
    ordered = [digests[number] for number in sorted(digests)]
    return ordered[0] if passes == 1 else digest(ordered)


# So many words begin an answer.
_BEGINNING = 2


def add_prompt_facts(facts: dict[str, str], reported: Mapping[str, object]) -> None:
    """Add to `facts` what the server reports of a prompt, in words.

    If two passes report different values, the fact holds both: such passes did not get the same
    prompt. The name of the model is left out, because the arms may serve it under two names.
    """
    for key, value in reported.items():
        text = str(value) if isinstance(value, int) else f"sha256 {digest(value)[:12]}"
        before = facts.get(key, text)
        if key != "model":
            facts[key] = text if text == before else f"{before}, then {text}"


@lru_cache(maxsize=1 << 16)
def _shared(facts: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """One object for the facts of all prompts that have the same."""
    return dict(facts)


class Tally:
    """The samples of one start so far.

    `errors` holds the first error of each request that had one. `tokens` holds the digests of words
    and tokens, as `digests` does of all. `requests` are those that are sent, if they are known.
    """

    def __init__(
        self,
        *,
        arm: Arm,
        number: int,
        ids: Sequence[str],
        passes: int,
        requests: Sequence[Request] = (),
    ) -> None:
        self.arm = arm
        self.number = number
        self.name = f"{arm.letter}{number}"
        self.count = 0
        self.errors: dict[str, str] = {}
        self.proof_missing: tuple[str, ...] = ()
        self.digests: PassDigests = {}
        self._words: PassDigests = {}
        self.tokens: PassDigests = {}
        self._ids = ids
        self._passes = passes
        self._prompts: dict[str, dict[str, str]] = {}
        self._empty: set[str] = set()
        self._looks = LooksOfAnswers(requests)
        self._beginnings: PassDigests = {}
        self._greedy = {each.id for each in requests if is_free(each) and is_greedy(each)}

    @property
    def variety(self) -> Mapping[str, tuple[int, int]]:
        """Each answered request: how many different words its answer has, and how many characters."""
        return self._looks.variety

    def add(self, sample: Sample) -> None:
        """Count `sample` under its request and pass; keep its digests, its error, its facts."""
        self.count += 1
        request = sample.id
        number = sample.pass_
        if sample.error is not None or sample.digest is None:
            # The first error: later ones are often its consequences.
            error = sample.error or "no answer"
            self.errors.setdefault(request, error)
            return
        # One object for the id: those of two samples are two.
        request = sys.intern(request)
        self.digests.setdefault(request, {})[number] = sample.digest
        # Interned: even where numbers differ, most starts have the same words, and one copy is kept.
        words = sys.intern(sample.words_digest or sample.digest)
        tokens = sys.intern(sample.tokens_digest or sample.digest)
        self._words.setdefault(request, {})[number] = words
        self.tokens.setdefault(request, {})[number] = tokens
        prompt = self._prompts.setdefault(request, {})
        add_prompt_facts(prompt, sample.prompt_facts)
        if sample.output is not None:
            if request in self._greedy:
                begins = words_of(sample.output).split(maxsplit=_BEGINNING)[:_BEGINNING]
                self._beginnings.setdefault(request, {})[number] = " ".join(begins)
            self._looks.add(request, sample.output, sample.prompt_facts)
        if sample.empty:
            self._empty.add(request)

    def start(
        self,
        *,
        failed: bool,
        outside: bool,
        claimed: bool = False,
        control: ControlOutcome | None = None,
        devices: str = "",
    ) -> ArmStart:
        """The answers of this start, compared in everything (see `SameAnswers`).

        `control` is what came of the request with a changed prompt, `devices` what was drawn for it.
        """
        return ArmStart(
            arm=self.arm,
            number=self.number,
            answers=self._outcomes(self.digests),
            levels={
                AnswerLevel.WORDS: _interned(self._outcomes(self._words)),
                AnswerLevel.TOKENS: _interned(self._outcomes(self.tokens)),
            },
            failed=failed,
            outside=outside,
            claimed=claimed,
            prompts={each: _shared(tuple(facts.items())) for each, facts in self._prompts.items()},
            empty=len(self._empty),
            looks=replace(self._looks.value(), restless=self._is_restless()),
            proof_missing=self.proof_missing,
            control=control,
            devices=devices,
        )

    def result(self, **fields: Any) -> StartResult:
        """A start that came to its end with these answers; `fields` are others of StartResult."""
        start = self.start(failed=False, outside=False)
        made = {"start": start, "failure": None, "duration_s": 0.0, **fields}
        return StartResult(digests=self.digests, errors=self.errors, **made)

    def _is_restless(self) -> bool:
        """Whether each answer to a greedy request begins otherwise in each pass, and there are some.

        A cache that changes the numbers changes words later in most answers, and not the first ones of all.
        """
        given = [list(self._beginnings.get(each, {}).values()) for each in self._greedy]
        return len(given) >= FEWEST_PROMPTS and all(
            len(set(each)) == len(each) > 1 for each in given
        )

    def _outcomes(self, digests: Mapping[str, Mapping[int, str]]) -> dict[str, Answer]:
        return {each: outcome(digests.get(each, {}), self._passes) for each in self._ids}


def _interned(outcomes: Mapping[str, Answer]) -> dict[str, Answer]:
    return {request: answer and sys.intern(answer) for request, answer in outcomes.items()}


# --- which answers count as the same, within a limit if there is one ---

Outputs = Mapping[str, Mapping[str, Any]]


class NearAnswers:
    """The outcomes of each request so far, by the digest of the first answer of each.

    Only digests are kept. `outputs` holds the answers by their digests.
    """

    def __init__(self, limit: NumberLimit, outputs: Outputs) -> None:
        self._limit = limit
        self._outputs = outputs
        self._firsts: dict[str, list[str]] = {}

    def outcome(self, request: str, digest: str) -> str:
        """The outcome that an answer belongs to. Raises what a look-up in `outputs` raises."""
        firsts = self._firsts.setdefault(request, [])
        # Nearly always: then nothing is read.
        if digest in firsts:
            return digest
        if firsts:
            answer = parts(self._outputs[digest])
            for first in firsts:
                if are_near(answer, parts(self._outputs[first]), self._limit):
                    return first
        firsts.append(digest)
        return digest


def are_near(left: AnswerParts, right: AnswerParts, limit: NumberLimit) -> bool:
    """Whether words and tokens are the same, and every number is within the limit."""
    return (
        limit.allows(left.numbers, right.numbers)
        and len(left.alternatives) == len(right.alternatives)
        and all(
            _list_alike(ours, theirs, limit)
            for ours, theirs in zip(left.alternatives, right.alternatives, strict=True)
        )
        and encode([left.words, left.tokens]) == encode([right.words, right.tokens])
    )


def _list_alike(left: Mapping[str, float], right: Mapping[str, float], limit: NumberLimit) -> bool:
    """Whether two lists of alternatives are the same within the limit.

    A token that only one side lists may have been the last of the other: it is then at most as
    probable there as the least probable one listed, and its distance is at least the one to that.
    """
    if not left or not right:
        return not left and not right
    common = [token for token in left if token in right]
    if not limit.allows([left[each] for each in common], [right[each] for each in common]):
        return False
    return _rest_is_near(left, right, limit) and _rest_is_near(right, left, limit)


def _rest_is_near(
    listed: Mapping[str, float], other: Mapping[str, float], limit: NumberLimit
) -> bool:
    least = min(other.values())
    alone = [number for token, number in listed.items() if token not in other]
    above = [number for number in alone if number > least]
    return limit.allows(above, [least] * len(above))


class SameAnswers:
    """Which answers count as the same in one experiment.

    It takes the starts in the order in which they were made, archived ones first: under a limit an
    outcome depends on the starts before it.
    """

    def __init__(self, comparison: Comparison, outputs: Outputs) -> None:
        self._level = comparison.level
        self._outputs = outputs
        self._near = None
        if comparison.limit is not None:
            self._near = NearAnswers(comparison.limit, outputs)

    def at_gate(self, result: StartResult) -> StartResult:
        """The result as the verdict needs it: its answers are outcomes at the gate's level.

        The next start may only be given once this one is made. A start that is no evidence stays as
        it is. Raises InfraError if an answer can no longer be read.
        """
        if not result.counts:
            return result
        start = result.start
        levels = {**start.levels, AnswerLevel.NUMBERS: start.answers}
        answers = levels.get(self._level)
        if answers is None or self._near is not None:
            answers = {
                request: None if answer is None else self.outcome(request, result.digests[request])
                for request, answer in start.answers.items()
            }
        return replace(result, start=replace(start, answers=answers, levels=levels))

    def outcome(self, request: str, passes: Mapping[int, str]) -> Answer:
        """The outcome of these answers to a request, each given by the digest of its output."""
        outcomes = {}
        for number in sorted(passes):
            given = passes[number]
            if self._near is not None:
                given = self._near.outcome(request, given)
            elif self._level is not AnswerLevel.NUMBERS:
                levels = level_digests(self._outputs[given], given)
                given = levels.words if self._level is AnswerLevel.WORDS else levels.tokens
            outcomes[number] = given
        return outcome(outcomes, len(passes))
