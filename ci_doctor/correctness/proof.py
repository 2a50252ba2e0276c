# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and reads logs: checks that an arm's path ran in a start.

Counters must have risen by the requests, lines must have been logged since the first one. Without such a proof, a candidate whose cache
is switched off passes everything.
"""

import asyncio
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.settings import Proof
from ci_doctor.load.metrics import MetricSample, read_samples
from ci_doctor.model.facts.correctness import ProofReading
from ci_doctor.services.running import RunningGroup
from ci_doctor.system import clock
from ci_doctor.system.secrets.private_keys import first_words

# The samples of /metrics; None if it could not be read.
Metrics = Sequence[MetricSample] | None
# Of a line that proves something, in characters; the log holds the whole.
_LONGEST_LINE = 200
# Between two readings without a request: before the requests, and after them as long as they took.
_IDLE_S = 0.5
_MOST_IDLE_S = 5.0
# So often in that time: a counter may jump at one of the readings.
_IDLE_READINGS = 5
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
        # How long each log was before the requests.
        self._logged: dict[str, int] = {}
        self.readings: tuple[ProofReading, ...] = ()

    async def begin(self) -> None:
        """Call it before the first request."""
        self._before = await self._idle_readings(_IDLE_S)
        for proof, service in self._proof:
            with contextlib.suppress(OSError):
                if proof.log is not None and not proof.at_start:
                    self._logged[service] = self._group.services[service].log.stat().st_size
        self._began = clock.now()

    async def unmet(self) -> tuple[str, ...]:
        """The conditions that are not met now, one sentence each; `readings` then holds all."""
        took_s = clock.now() - self._began
        # Read once for all conditions: they are about the same moment.
        after = await self._metrics()
        counters = [each for each in self._proof if each[0].metric is not None]
        if any(self._counted(*each, after)[0] is None for each in counters):
            # What a server still writes after its last answer is no clock: it comes to an end.
            await asyncio.sleep(min(max(took_s, _IDLE_S), _MOST_IDLE_S) / 2)
            await self._idle_readings(min(max(took_s, _IDLE_S), _MOST_IDLE_S) / 2)
        sentences = []
        readings = []
        for proof, service in self._proof:
            if proof.metric is not None:
                idle = self._rise(proof, service)
                reason, reading = self._counted(proof, service, after, idle)
            else:
                log = self._group.services[service].log
                begun = 0 if proof.at_start else self._logged.get(service, 0)
                reason, reading = logged(proof, service, log, begun)
            readings.append(reading)
            if reason:
                sentences.append(f"nothing proves that its path ran: {reason}")
        self.readings = tuple(readings)
        return tuple(sentences)

    def _counted(
        self, proof: Proof, service: str, after: Mapping[str, Metrics], idle: float = 0.0
    ) -> tuple[str | None, ProofReading]:
        """Why a counter proves nothing, and what was read of it."""
        before = self._before.get(service)
        reading = counter_reading(proof, service, before, after[service], idle)
        reason = not_risen(proof, reading, after[service])
        return reason, replace(reading, met=reason is None)

    async def _idle_readings(self, pause_s: float) -> dict[str, Metrics]:
        """Read several times while no request is under way; returns the last reading."""
        first = await self._metrics()
        if not first:
            return first
        last = first
        for _ in range(_IDLE_READINGS - 1):
            await asyncio.sleep(pause_s / (_IDLE_READINGS - 1))
            last = await self._metrics()
        self._idle.append((first, last))
        return last

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
        names = {name for proof, name in self._proof if proof.metric is not None}
        services = self._group.services
        return {name: await read_samples(services[name].base_url) for name in sorted(names)}


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


def logged(
    proof: Proof, service: str, log: Path, begun: int = 0
) -> tuple[str | None, ProofReading]:
    """Why a log proves nothing, in words (None if it does), and what was read of it.

    Its first `begun` bytes are from before the first request.
    """
    pattern = re.compile(proof.log or "")
    reading = ProofReading(service=service, met=False, log=proof.log)
    position = 0
    try:
        with log.open("rb") as lines:
            for number, content in enumerate(lines, start=1):
                position += len(content)
                line = content.decode("utf-8", "replace").strip()
                is_late = position > begun
                if (is_late or reading.line is None) and pattern.search(line):
                    text = first_words(line, _LONGEST_LINE)
                    reading = replace(reading, met=is_late, line=number, text=text)
                    if is_late:
                        return None, reading
    except OSError as error:
        unknown = f"so /{proof.log}/ is unknown"
        return f"the log {log.name} cannot be read ({error.strerror}), {unknown}", reading
    if reading.line is None:
        return f"no line of {log.name} matches /{proof.log}/", reading
    return (
        f"/{proof.log}/ matches only lines of {log.name} from before the first request (line {reading.line}): "
        "name a line that a request writes, or set `at_start = true`"
    ), reading
