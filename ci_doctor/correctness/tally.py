# SPDX-License-Identifier: Apache-2.0
"""Gathers the samples of one start into what the comparison needs."""

from collections.abc import Mapping, Sequence

from ci_doctor.correctness.compare import Answer, Start
from ci_doctor.correctness.samples import Sample
from ci_doctor.correctness.settings import Arm, MetricProof
from ci_doctor.load.canonical import digest


class Tally:
    """The samples of one start so far. `errors` holds the first error of each request that had one."""

    def __init__(self, *, arm: Arm, number: int, ids: Sequence[str], passes: int) -> None:
        self.arm = arm
        self.number = number
        self.name = f"{arm.letter}{number}"
        self.count = 0
        self.errors: dict[str, str] = {}
        self.proof_missing: tuple[str, ...] = ()
        # The digests of each request's outputs by pass.
        self.digests: dict[str, dict[int, str]] = {}
        self._ids = ids
        self._passes = passes
        self._prompts: dict[str, dict[str, str]] = {}
        self._empty: set[str] = set()

    def add(self, sample: Sample) -> None:
        """One more sample."""
        self.count += 1
        if sample.error is not None or sample.digest is None:
            self.errors.setdefault(sample.id, sample.error or "no answer")
            return
        self.digests.setdefault(sample.id, {})[sample.pass_] = sample.digest
        self._prompts[sample.id] = {key: _in_words(value) for key, value in sample.asked.items() if key != "model"}
        if sample.empty:
            self._empty.add(sample.id)

    def start(self, *, failed: bool, outside: bool) -> Start:
        """What this start answered."""
        return Start(
            arm=self.arm,
            number=self.number,
            answers={identity: self._answer(identity) for identity in self._ids},
            failed=failed,
            outside=outside,
            prompts=self._prompts,
            empty=len(self._empty),
            proof_missing=self.proof_missing,
        )

    def _answer(self, identity: str) -> Answer:
        """The outcome over all passes: the digest itself for one pass, a digest of the digests for more."""
        digests = self.digests.get(identity, {})
        if len(digests) < self._passes:
            return None
        return next(iter(digests.values())) if self._passes == 1 else digest([digests[key] for key in sorted(digests)])


def _in_words(told: object) -> str:
    return str(told) if isinstance(told, int) else f"sha256 {digest(told)[:12]}"


def unmet(
    proof: Sequence[MetricProof], before: Mapping[str, float] | None, after: Mapping[str, float] | None
) -> tuple[str, ...]:
    """The conditions that are not met, in words; None stands for a page of metrics that could not be read. Pure.

    A counter `x` may be exported as `x_total` (prometheus_client does). One with labels appears with its first count.
    """
    if before is None or after is None:
        return tuple(f"/metrics could not be read, so `{condition.metric}` is unknown" for condition in proof)
    missing = []
    for condition in proof:
        name = next((name for name in (condition.metric, f"{condition.metric}_total") if name in after), None)
        if name is None:
            missing.append(f"/metrics has no `{condition.metric}`")
        elif not after[name] - before.get(name, 0.0) > condition.above:
            missing.append(
                f"`{name}` rose by {after[name] - before.get(name, 0.0):g}, which is not above {condition.above:g}"
            )
    return tuple(missing)
