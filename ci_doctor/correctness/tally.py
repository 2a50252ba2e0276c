# SPDX-License-Identifier: Apache-2.0
"""Gathers the samples of one start into what the comparison needs. Pure."""

from collections.abc import Mapping, Sequence

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import Answer, ArmStart
from ci_doctor.load.canonical import digest
from ci_doctor.load.looks import LooksOfAnswers


def outcome(digests: Mapping[int, str], passes: int) -> Answer:
    """A request's outcome over its passes; None if a pass has no answer.

    The digest itself for one pass, a digest of the digests for more.
    """
    if len(digests) < passes:
        return None
    # By the number of the pass, whatever the order of arrival.
    ordered = [digests[number] for number in sorted(digests)]
    return ordered[0] if passes == 1 else digest(ordered)


def add_prompt_facts(facts: dict[str, str], reported: Mapping[str, object]) -> None:
    """Add to `facts` what the server reports of a prompt, in words.

    If two passes report different values, the fact holds both: such passes did not get the same
    prompt. The name of the model is left out, because the arms may serve it under two names.
    """
    for key, value in reported.items():
        if key == "model":
            continue
        text = _in_words(value)
        before = facts.get(key)
        if before is None:
            facts[key] = text
        elif text != before:
            facts[key] = f"{before}, then {text}"


def _in_words(value: object) -> str:
    return str(value) if isinstance(value, int) else f"sha256 {digest(value)[:12]}"


class Tally:
    """The samples of one start so far.

    `errors` holds the first error of each request that had one; `throttled` the requests that the
    server first refused for later.
    """

    def __init__(self, *, arm: Arm, number: int, ids: Sequence[str], passes: int) -> None:
        self.arm = arm
        self.number = number
        self.name = f"{arm.letter}{number}"
        self.count = 0
        self.errors: dict[str, str] = {}
        self.throttled: set[str] = set()
        self.proof_missing: tuple[str, ...] = ()
        # The digests of each request's outputs by pass.
        self.digests: dict[str, dict[int, str]] = {}
        self._words: dict[str, dict[int, str]] = {}
        self._ids = ids
        self._passes = passes
        self._prompts: dict[str, dict[str, str]] = {}
        self._empty: set[str] = set()
        self._looks = LooksOfAnswers()

    def add(self, sample: Sample) -> None:
        """Count `sample` under its request and pass; keep its digests, its error, its facts."""
        self.count += 1
        request = sample.id
        number = sample.pass_
        if sample.meta.get("tries", 1) > 1:
            self.throttled.add(request)
        if sample.error is not None or sample.digest is None:
            # The first error: later ones are often its consequences.
            error = sample.error or "no answer"
            self.errors.setdefault(request, error)
            return
        digests = self.digests.setdefault(request, {})
        digests[number] = sample.digest
        words = self._words.setdefault(request, {})
        # A sample of an earlier version has no digest of its words.
        words[number] = sample.words_digest or sample.digest
        prompt = self._prompts.setdefault(request, {})
        add_prompt_facts(prompt, sample.prompt_facts)
        if sample.output is not None:
            self._looks.add(request, sample.output, sample.prompt_facts)
        if sample.empty:
            self._empty.add(request)

    def start(self, *, failed: bool, outside: bool, claimed: bool = False) -> ArmStart:
        """The answers of this start."""
        answers = {each: outcome(self.digests.get(each, {}), self._passes) for each in self._ids}
        return ArmStart(
            arm=self.arm,
            number=self.number,
            answers=answers,
            words=self._word_outcomes(),
            failed=failed,
            outside=outside,
            claimed=claimed,
            prompts=self._prompts,
            empty=len(self._empty),
            looks=self._looks.value(),
            proof_missing=self.proof_missing,
        )

    def _word_outcomes(self) -> dict[str, Answer]:
        """The outcomes of the words alone; empty if no answer holds anything else."""
        if self._words == self.digests:
            return {}
        return {each: outcome(digests, self._passes) for each, digests in self._words.items()}
