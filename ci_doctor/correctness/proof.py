# SPDX-License-Identifier: Apache-2.0
"""What shows that an arm's path ran in a start: counters that rose, lines that were logged. A cache that is off passes all."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_doctor.correctness.settings import Proof
from ci_doctor.load.metrics import read_metrics
from ci_doctor.services.running import RunningGroup

Metrics = Mapping[str, float]


class ProofCheck:
    """Acts on the network and reads logs: gathers what the `proof` of an arm needs from a running group."""

    def __init__(self, proof: Sequence[Proof], group: RunningGroup, answering: str) -> None:
        self._proof = [(proof, proof.service or answering) for proof in proof]
        self._group = group
        self._before: dict[str, Metrics | None] = {}

    async def begin(self) -> None:
        """Before the first request."""
        self._before = await self._pages()

    async def unmet(self) -> tuple[str, ...]:
        """The conditions that are not met now, in words."""
        after = await self._pages()
        sentences = []
        for condition, service in self._proof:
            if condition.metric is not None:
                told = not_risen(condition, self._before.get(service), after[service])
            else:
                told = _not_logged(condition, self._group.services[service].log)
            sentences += [f"nothing proves that its path ran: {told}"] if told else []
        return tuple(sentences)

    async def _pages(self) -> dict[str, Metrics | None]:
        services = {service for condition, service in self._proof if condition.metric is not None}
        return {
            name: await read_metrics(self._group.services[name].base_url)
            for name in sorted(services)
        }


def not_risen(condition: Proof, before: Metrics | None, after: Metrics | None) -> str | None:
    """Why a counter does not prove anything, in words; None where it does. Pure.

    A counter `x` may be exported as `x_total` (prometheus_client does). One with labels appears with its first count.
    """
    metric = condition.metric or ""
    if before is None or after is None:
        return f"/metrics could not be read, so `{metric}` is unknown"
    name = next((name for name in (metric, f"{metric}_total") if name in after), None)
    if name is None:
        return f"/metrics has no `{metric}`"
    rise = after[name] - before.get(name, 0.0)
    return (
        None
        if rise > condition.above
        else f"`{name}` rose by {rise:g}, which is not above {condition.above:g}"
    )


def _not_logged(condition: Proof, log: Path) -> str | None:
    pattern = re.compile(condition.log or "")
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            if any(pattern.search(line) for line in lines):
                return None
    except OSError as error:
        return (
            f"the log {log.name} cannot be read ({error.strerror}), so /{condition.log}/ is unknown"
        )
    return f"no line of {log.name} matches /{condition.log}/"
