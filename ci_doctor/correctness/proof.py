# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and reads logs: checks that an arm's path ran in a start.

Counters must have risen by the requests, lines must have been logged. Without such a proof, a candidate whose cache
is switched off passes everything.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.proof_reading import ProofReading
from ci_doctor.correctness.settings import Proof
from ci_doctor.load.metrics import MetricSample, read_samples
from ci_doctor.services.running import RunningGroup
from ci_doctor.system import clock
from ci_doctor.system.secrets.cutting import first_words

# The samples of /metrics; None if it could not be read.
Metrics = Sequence[MetricSample] | None
# Of a line that proves something, in characters; the log holds the whole.
_LONGEST_LINE = 200
# Between two readings without a request: before the requests, and after them as long as they took.
_IDLE_S = 0.5
_MOST_IDLE_S = 5.0
# What a label says of the cases in which the path did not run.
_DENIAL = re.compile(
    r"miss(es|ed)?|no|none|false|off|cold|fail(ed|ures?)?|errors?|rejected|denied|disabled|evicted"
    r"|bypass(ed)?|skip(ped)?",
    re.IGNORECASE,
)


class ProofCheck:
    """The `proof` of an arm against a running group: its counters before and after the requests."""

    def __init__(self, proof: Sequence[Proof], group: RunningGroup, answering: str) -> None:
        # A proof that names no service is about the one that answers.
        self._proof = [(each, each.service or answering) for each in proof]
        self._group = group
        self._idle: list[tuple[dict[str, Metrics], dict[str, Metrics]]] = []
        self._before: dict[str, Metrics] = {}
        self._began = clock.now()
        self.readings: tuple[ProofReading, ...] = ()

    async def begin(self) -> None:
        """Call it before the first request."""
        self._before = await self._idle_readings(_IDLE_S)
        self._began = clock.now()

    async def unmet(self) -> tuple[str, ...]:
        """The conditions that are not met now, one sentence each; `readings` then holds all."""
        took_s = clock.now() - self._began
        # Read once for all conditions: they are about the same moment.
        after = await self._metrics()
        if self._has_risen(after):
            # What a server still writes after its last answer is no clock: it comes to an end.
            await asyncio.sleep(min(max(took_s, _IDLE_S), _MOST_IDLE_S) / 2)
            await self._idle_readings(min(max(took_s, _IDLE_S), _MOST_IDLE_S) / 2)
        sentences = []
        readings = []
        for proof, service in self._proof:
            if proof.metric is not None:
                reading = counter_reading(
                    proof,
                    service,
                    self._before.get(service),
                    after[service],
                    self._rise(proof, service),
                )
                reason = not_risen(proof, reading, after[service])
                reading = replace(reading, met=reason is None)
            else:
                reason, reading = _logged(proof, service, self._group.services[service].log)
            readings.append(reading)
            if reason:
                sentences.append(f"nothing proves that its path ran: {reason}")
        self.readings = tuple(readings)
        return tuple(sentences)

    def _has_risen(self, after: Mapping[str, Metrics]) -> bool:
        for proof, service in self._proof:
            if proof.metric is not None:
                reading = counter_reading(proof, service, self._before.get(service), after[service])
                if not_risen(proof, reading, after[service]) is None:
                    return True
        return False

    async def _idle_readings(self, pause_s: float) -> dict[str, Metrics]:
        """Read twice while no request is under way; returns the second reading."""
        first = await self._metrics()
        if not first:
            return first
        await asyncio.sleep(pause_s)
        second = await self._metrics()
        self._idle.append((first, second))
        return second

    def _rise(self, proof: Proof, service: str) -> float:
        """How far a counter rose without a request; 0 if that is not known."""
        rises = [0.0]
        for first, second in self._idle:
            before, after = value_of(proof, first[service]), value_of(proof, second[service])
            if after is not None and first[service] is not None:
                # A counter with labels may appear between them.
                rises.append(after - (before or 0.0))
        return max(rises)

    async def _metrics(self) -> dict[str, Metrics]:
        """The counters of each service that a condition on a counter names."""
        names: set[str] = set()
        for proof, name in self._proof:
            if proof.metric is not None:
                names.add(name)
        metrics: dict[str, Metrics] = {}
        for name in sorted(names):
            service = self._group.services[name]
            metrics[name] = await read_samples(service.base_url)
        return metrics


def value_of(proof: Proof, metrics: Metrics) -> float | None:
    """The sum of a counter's samples; None if there is none. Pure.

    Without `labels`, a sample does not count whose label says that the path did not run
    (`kind="miss"`).
    """
    values = [each.value for each in _samples(proof, metrics) if proof.labels or not _denies(each)]
    return sum(values) if values else None


def _samples(proof: Proof, metrics: Metrics) -> Iterator[MetricSample]:
    name = _exported(proof.metric or "", metrics)
    for each in metrics or ():
        if each.name == name and proof.labels.items() <= each.labels.items():
            yield each


def _denies(sample: MetricSample) -> bool:
    return any(_DENIAL.fullmatch(value) for value in sample.labels.values())


def not_risen(proof: Proof, reading: ProofReading, metrics: Metrics) -> str | None:
    """Why a counter proves nothing, in words; None if it rose enough. Pure.

    `metrics` is the page after the requests. A counter with labels appears with its first count.
    """
    name = reading.metric
    if metrics is None or reading.unread:
        return f"/metrics could not be read, so `{name}` is unknown"
    if reading.after is None:
        denying = next(_samples(proof, metrics), None)
        if denying is None:
            return f"/metrics has no `{name}`"
        label = ", ".join(f'{key}="{value}"' for key, value in denying.labels.items())
        return f"`{name}` has samples such as {label} alone, and `labels` does not name them"
    if reading.idle > 0:
        return (
            f"`{name}` rises without a request too, by {reading.idle:g} between two readings: "
            "it counts something else"
        )
    rise = reading.after - (reading.before or 0.0)
    if rise > proof.above:
        return None
    return f"`{name}` rose by {rise:g}, which is not above {proof.above:g}"


def counter_reading(
    proof: Proof, service: str, before: Metrics, after: Metrics, idle: float = 0.0
) -> ProofReading:
    """What was read of a counter, not judged yet. Pure."""
    name = _exported(proof.metric or "", after)
    labels = ",".join(f'{key}="{value}"' for key, value in proof.labels.items())
    return ProofReading(
        service=service,
        met=False,
        metric=f"{name}{{{labels}}}" if labels else name,
        before=value_of(proof, before),
        after=value_of(proof, after),
        above=proof.above,
        idle=idle,
        unread=before is None,
    )


def _exported(metric: str, metrics: Metrics) -> str:
    """The name under which /metrics has a counter `x`: prometheus_client writes `x_total`."""
    names = {each.name for each in metrics or ()}
    total = f"{metric}_total"
    return total if metric not in names and total in names else metric


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
