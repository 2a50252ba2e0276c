# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and reads logs: checks that an arm's path ran in a start.

Counters must have risen, lines must have been logged. Without such a proof, a candidate whose cache
is switched off passes everything.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_doctor.correctness.settings import Proof
from ci_doctor.load.metrics import read_metrics
from ci_doctor.services.running import RunningGroup

# The values of /metrics by name; None if it could not be read.
Metrics = Mapping[str, float] | None


class ProofCheck:
    """The `proof` of an arm against a running group: its counters before and after the requests."""

    def __init__(self, proof: Sequence[Proof], group: RunningGroup, answering: str) -> None:
        # A proof that names no service is about the one that answers.
        self._proof = [(each, each.service or answering) for each in proof]
        self._group = group
        self._before: dict[str, Metrics] = {}

    async def begin(self) -> None:
        """Call it before the first request."""
        self._before = await self._metrics()

    async def unmet(self) -> tuple[str, ...]:
        """The conditions that are not met now, one sentence each."""
        # Read once for all conditions: they are about the same moment.
        after = await self._metrics()
        sentences = []
        for proof, service in self._proof:
            if proof.metric is not None:
                reason = not_risen(proof, self._before.get(service), after[service])
            else:
                reason = _not_logged(proof, self._group.services[service].log)
            if reason:
                sentences.append(f"nothing proves that its path ran: {reason}")
        return tuple(sentences)

    async def _metrics(self) -> dict[str, Metrics]:
        """The counters of each service that a condition on a counter names."""
        names: set[str] = set()
        for proof, name in self._proof:
            if proof.metric is not None:
                names.add(name)
        metrics: dict[str, Metrics] = {}
        for name in sorted(names):
            service = self._group.services[name]
            metrics[name] = await read_metrics(service.base_url)
        return metrics


def not_risen(proof: Proof, before: Metrics, after: Metrics) -> str | None:
    """Why a counter proves nothing, in words; None if it rose enough. Pure.

    A counter `x` may be exported as `x_total` (prometheus_client does that). A counter with labels
    appears with its first count.
    """
    metric = proof.metric or ""
    if before is None or after is None:
        return f"/metrics could not be read, so `{metric}` is unknown"
    name = metric if metric in after else f"{metric}_total"
    if name not in after:
        return f"/metrics has no `{metric}`"
    rise = after[name] - before.get(name, 0.0)
    if rise > proof.above:
        return None
    return f"`{name}` rose by {rise:g}, which is not above {proof.above:g}"


def _not_logged(proof: Proof, log: Path) -> str | None:
    pattern = re.compile(proof.log or "")
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            if any(pattern.search(line) for line in lines):
                return None
    except OSError as error:
        return f"the log {log.name} cannot be read ({error.strerror}), so /{proof.log}/ is unknown"
    return f"no line of {log.name} matches /{proof.log}/"
