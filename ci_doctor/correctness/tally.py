# SPDX-License-Identifier: Apache-2.0
"""Gathers the samples of one start into what the comparison needs."""

from collections.abc import Mapping, Sequence

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import Answer, ArmStart
from ci_doctor.load.canonical import digest


def outcome(digests: Mapping[int, str], passes: int) -> Answer:
    """A request's outcome over its passes; None where a pass has no answer.

    The digest itself for one pass, a digest of the digests for more.
    """
    if len(digests) < passes:
        return None
    return (
        next(iter(digests.values()))
        if passes == 1
        else digest([digests[key] for key in sorted(digests)])
    )


def add_prompt_facts(told: dict[str, str], asked: Mapping[str, object]) -> None:
    """Add to `told` what the server says of a prompt; two passes that were not asked the same are no agreement."""
    for key, value in asked.items():
        said, before = _in_words(value), told.get(key)
        if key != "model" and said != before:
            told[key] = said if before is None else f"{before}, then {said}"


class Tally:
    """The samples of one start so far.

    `errors` holds the first error of each request that had one, `throttled` those that were told to come again later.
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
        self._said: dict[str, dict[int, str]] = {}
        self._ids = ids
        self._passes = passes
        self._prompts: dict[str, dict[str, str]] = {}
        self._empty: set[str] = set()

    def add(self, sample: Sample) -> None:
        """One more sample."""
        self.count += 1
        if sample.meta.get("tries", 1) > 1:
            self.throttled.add(sample.id)
        if sample.error is not None or sample.digest is None:
            self.errors.setdefault(sample.id, sample.error or "no answer")
            return
        self.digests.setdefault(sample.id, {})[sample.pass_] = sample.digest
        self._said.setdefault(sample.id, {})[sample.pass_] = sample.words_digest or sample.digest
        add_prompt_facts(self._prompts.setdefault(sample.id, {}), sample.prompt_facts)
        if sample.empty:
            self._empty.add(sample.id)

    @property
    def _numbers(self) -> bool:
        """Whether any answer holds more than its words."""
        return self._said != self.digests

    def start(self, *, failed: bool, outside: bool, claimed: bool = False) -> ArmStart:
        """What this start answered."""
        return ArmStart(
            arm=self.arm,
            number=self.number,
            answers={each: outcome(self.digests.get(each, {}), self._passes) for each in self._ids},
            words={each: outcome(digests, self._passes) for each, digests in self._said.items()}
            if self._numbers
            else {},
            failed=failed,
            outside=outside,
            claimed=claimed,
            prompts=self._prompts,
            empty=len(self._empty),
            proof_missing=self.proof_missing,
        )


def _in_words(told: object) -> str:
    return str(told) if isinstance(told, int) else f"sha256 {digest(told)[:12]}"
