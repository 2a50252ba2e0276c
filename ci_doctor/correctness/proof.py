# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and reads logs: checks that an arm's path ran in a start.

Counters must have risen, lines must have been logged. Without such a proof, a candidate whose cache
is switched off passes everything.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.proof_reading import ProofReading
from ci_doctor.correctness.settings import Proof
from ci_doctor.load.metrics import read_metrics
from ci_doctor.services.running import RunningGroup
from ci_doctor.system.secrets.cutting import first_words

# The values of /metrics by name; None if it could not be read.
Metrics = Mapping[str, float] | None
# Of a line that proves something, in characters; the log holds the whole.
_LONGEST_LINE = 200


class ProofCheck:
    """The `proof` of an arm against a running group: its counters before and after the requests."""

    def __init__(self, proof: Sequence[Proof], group: RunningGroup, answering: str) -> None:
        # A proof that names no service is about the one that answers.
        self._proof = [(each, each.service or answering) for each in proof]
        self._group = group
        self._before: dict[str, Metrics] = {}
        self.readings: tuple[ProofReading, ...] = ()

    async def begin(self) -> None:
        """Call it before the first request."""
        self._before = await self._metrics()

    async def unmet(self) -> tuple[str, ...]:
        """The conditions that are not met now, one sentence each; `readings` then holds all."""
        # Read once for all conditions: they are about the same moment.
        after = await self._metrics()
        sentences = []
        readings = []
        for proof, service in self._proof:
            if proof.metric is not None:
                before = self._before.get(service)
                reason = not_risen(proof, before, after[service])
                reading = counter_reading(proof, service, before, after[service])
            else:
                reason, reading = _logged(proof, service, self._group.services[service].log)
            readings.append(reading)
            if reason:
                sentences.append(f"nothing proves that its path ran: {reason}")
        self.readings = tuple(readings)
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
    name = _exported(metric, after)
    if name not in after:
        return f"/metrics has no `{metric}`"
    rise = after[name] - before.get(name, 0.0)
    if rise > proof.above:
        return None
    return f"`{name}` rose by {rise:g}, which is not above {proof.above:g}"


def counter_reading(proof: Proof, service: str, before: Metrics, after: Metrics) -> ProofReading:
    """What was read of a counter. Pure."""
    name = _exported(proof.metric or "", after or {})
    return ProofReading(
        service=service,
        met=not_risen(proof, before, after) is None,
        metric=name if name in (after or {}) else proof.metric,
        before=(before or {}).get(name),
        after=(after or {}).get(name),
        above=proof.above,
    )


def _exported(metric: str, metrics: Mapping[str, float]) -> str:
    """The name under which /metrics has a counter."""
    return metric if metric in metrics else f"{metric}_total"


def _logged(proof: Proof, service: str, log: Path) -> tuple[str | None, ProofReading]:
    """Why a log proves nothing, in words (None if it does), and what was read of it."""
    pattern = re.compile(proof.log or "")
    reading = ProofReading(service=service, met=False, log=proof.log)
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                if pattern.search(line):
                    text = first_words(line.strip(), _LONGEST_LINE)
                    return None, replace(reading, met=True, line=number, text=text)
    except OSError as error:
        unknown = f"so /{proof.log}/ is unknown"
        return f"the log {log.name} cannot be read ({error.strerror}), {unknown}", reading
    return f"no line of {log.name} matches /{proof.log}/", reading
