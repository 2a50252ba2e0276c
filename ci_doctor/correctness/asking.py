# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and reads logs: sends the requests of a pass, the reset between two, the control; the proof."""

import asyncio
import contextlib
import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import httpx
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.evidence.samples import NO_PASS, Sample
from ci_doctor.correctness.results import Tally, level_digests
from ci_doctor.correctness.settings import Arm, ExperimentPlan, Proof
from ci_doctor.correctness.verdict.starts import (
    ArmStart,
    ControlTry,
    control_outcome,
    with_inside,
)
from ci_doctor.load.prompts import PromptChange, changed_body, is_free, prompt_of
from ci_doctor.load.requests import Request, protocol_of
from ci_doctor.load.sending import MetricSample, Reply, Sender, read_samples, send_all
from ci_doctor.model.facts.correctness import ControlOutcome, ControlResult, ProofReading
from ci_doctor.services.running import RunningGroup
from ci_doctor.system import clock
from ci_doctor.system.secrets.private_keys import first_words


class PassPlan(Struct, frozen=True, kw_only=True):
    """One pass: `requests` in their order, `concurrency` at a time.

    `resets`: an arm with a `reset` path is reset before it. `pause_s`: no request comes for so long
    before it.
    """

    requests: tuple[Request, ...]
    concurrency: int
    resets: bool
    pause_s: float = 0.0


def passes_of(plan: ExperimentPlan) -> tuple[PassPlan, ...]:
    """The passes of each start of an experiment."""
    # Before the first pass there is nothing that the server could remember.
    return tuple(
        PassPlan(requests=plan.requests, concurrency=plan.concurrency, resets=number > 0)
        for number in range(plan.passes)
    )


async def collect(
    sender: Sender,
    requests: Sequence[Request],
    sample: Callable[..., Sample],
    keep: Callable[[Sample], None],
) -> None:
    """Send all `requests`; `keep` gets a sample for each as it arrives, also for an error.

    `sample` makes a Sample of the fields given here and of what the caller adds (arm, start, pass).
    An exception from `keep` ends the sending and is raised. Raises InfraError as `send_all` does.
    """

    def on_reply(reply: Reply) -> None:
        keep(sample(id=reply.id, **_fields(reply)))

    await send_all(sender, requests, on_reply)


def _fields(reply: Reply) -> dict[str, object]:
    """The fields of a sample that the reply decides."""
    answer = reply.answer
    # An error is evidence too: the other arm may not have it.
    if answer is None:
        return {"status": reply.status, "error": reply.error}
    digests = level_digests(answer.output, answer.digest)
    return {
        "status": reply.status,
        "output": answer.output,
        "digest": answer.digest,
        "words_digest": digests.words,
        "tokens_digest": digests.tokens,
        "prompt_facts": answer.prompt_facts,
        "empty": answer.empty,
        "meta": answer.meta,
    }


# vLLM answers `{"success": false}` with status 200 while blocks are held, and asks callers to try
# again (vllm/entrypoints/serve/dev/cache/api_router.py, 0.33.0). An offload that is under way ends
# within that time, or hangs.
_AGAIN_S = 5.0
_PAUSE_S = 0.1


async def reset(sender: Sender, path: str) -> tuple[str, ...]:
    """POST to `path` until the server has forgotten.

    Returns one sentence if that is not certain.
    """
    deadline = clock.now() + min(_AGAIN_S, sender.timeout_s)
    while True:
        try:
            async with asyncio.timeout(sender.timeout_s), sender.client() as client:
                response = await client.post(path)
        except (TimeoutError, httpx.HTTPError) as error:
            return (f"the reset request {path} was not answered: {type(error).__name__}",)
        if not response.is_success:
            return (f"the reset request {path} was answered with HTTP {response.status_code}",)
        if not _is_refusal(response.content):
            return ()
        if clock.now() >= deadline:
            return (f"`success` is false in every answer to the reset request {path}",)
        await asyncio.sleep(_PAUSE_S)


def _is_refusal(body: bytes) -> bool:
    """Whether the body is JSON that says `"success": false`."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("success") is False


# How many different words an answer has, and how many characters.
Variety = tuple[int, int]
_PREFIX = "control:"
# A prompt of so many characters is within the context of any model.
_IS_READ_WHOLE = 400
# The middle third of so many characters has several letters.
_HAS_MIDDLE = 40


class ControlRequest(Struct, frozen=True, kw_only=True):
    """A `request` to send, which is the request `original` with a changed prompt.

    `telling`: the two answers can hardly be the same by chance. `by_tokens`: their words or tokens must
    differ, and not their numbers alone.
    """

    original: str
    request: Request
    telling: bool
    by_tokens: bool


def is_due(arm: Arm, starts: Iterable[ArmStart]) -> bool:
    """Whether the next start of an arm gets a control: no earlier one of today has decided it."""
    return not any(
        start.arm is arm and start.control is not None and start.control.is_decisive
        for start in starts
    )


def control_requests(
    requests: Sequence[Request], variety: Mapping[str, Variety]
) -> Iterator[ControlRequest]:
    """At most two controls, the better one first; none if no prompt can be changed.

    `variety` holds each request that the start has answered.
    """
    # The longer and the freer an answer, the more it would differ. The sort is stable: of equal ones
    # the first of the file is taken.
    changeable = sorted(
        _changeable(requests, variety),
        key=lambda each: (_is_telling(each, variety[each.id]), variety[each.id]),
        reverse=True,
    )
    if not changeable:
        return
    first = changeable[0]
    # The best one with another prompt than the first; the first if all have the same.
    others = (each for each in changeable if prompt_of(each) != prompt_of(first))
    yield _control(first, PromptChange.REVERSED, variety)
    yield _control(next(others, first), PromptChange.REPLACED, variety)


def inside_requests(
    requests: Sequence[Request], variety: Mapping[str, Variety]
) -> Iterator[tuple[ControlRequest, ...]]:
    """Controls with another middle of the prompt, in groups; what two of a group show is no chance.

    Of the shortest prompts that have a middle the most is changed. Of longer ones more is left at the
    ends. Those that a server may cut, or of which only the end may matter, are left out.
    """
    by_prompt = {
        prompt_of(each): each
        for each in _changeable(requests, variety)
        if _is_telling(each, variety[each.id]) and len(prompt_of(each)) <= _IS_READ_WHOLE
    }
    ranked = sorted(by_prompt, key=lambda prompt: (len(prompt) < _HAS_MIDDLE, len(prompt)))
    long = sorted(ranked, key=len, reverse=True)
    for prompts in dict.fromkeys((tuple(ranked[:2]), tuple(long[:2]))):
        if len(prompts) > 1:
            yield tuple(_control(by_prompt[each], PromptChange.INSIDE, variety) for each in prompts)


def _changeable(requests: Sequence[Request], variety: Mapping[str, Variety]) -> list[Request]:
    """The answered requests whose prompt can be changed, and whose answer is not the prompt itself."""
    return [
        each
        for each in requests
        if each.id in variety
        and not each.body.get("echo")
        and protocol_of(each).prompted
        and changed_body(each, PromptChange.REVERSED) is not None
    ]


def _is_telling(request: Request, variety: Variety) -> bool:
    # Vectors and scores of two prompts are never the same, digit by digit.
    if not protocol_of(request).sampled:
        return True
    words, _ = variety
    messages = request.body.get("messages") or ()
    # A system message may demand one of a few words, whatever the user writes.
    is_label = words <= 1 and len(messages) > 1
    return is_free(request) and not is_label


def _control(
    original: Request, change: PromptChange, variety: Mapping[str, Variety]
) -> ControlRequest:
    body = changed_body(original, change)
    assert body is not None  # noqa: S101 - both changes take the same prompts
    inside = "inside:" if change is PromptChange.INSIDE else ""
    request = replace(original, id=f"{_PREFIX}{inside}{original.id}", body=body)
    return ControlRequest(
        original=original.id,
        request=request,
        telling=_is_telling(original, variety[original.id]),
        # A label may rightly be the same. Then its numbers are what a changed prompt changes.
        by_tokens=is_free(original),
    )


# An answer of so many different words is no label.
_MANY_WORDS = 6


async def send_control(
    sender: Sender,
    requests: Sequence[Request],
    tally: Tally,
    keep: Callable[[Sample], None],
) -> ControlOutcome | None:
    """Send controls to a server that has answered what `tally` holds; one alone if it decides.

    `keep` gets their samples, which belong to no pass. None if the server has answered nothing, or if no
    protocol of `requests` has prompts.
    Raises InfraError as `collect` does.
    """
    if not tally.variety or not any(protocol_of(each).prompted for each in requests):
        return None
    tries = await _until_changed(sender, control_requests(requests, tally.variety), tally, keep)
    outcome = control_outcome(tries)
    if outcome.result is not ControlResult.CHANGED:
        return outcome
    # An answer that several prompts got is a refusal, or a label: a changed prompt may get it, too.
    given = Counter(
        itertools.chain.from_iterable(set(each.values()) for each in tally.tokens.values())
    )
    shared = {each for each, times in given.items() if times > 1}
    alone = [each for each in requests if shared.isdisjoint(tally.tokens.get(each.id, {}).values())]
    for group in inside_requests(alone or requests, tally.variety):
        outcome = with_inside(outcome, await _until_changed(sender, group, tally, keep))
    return outcome


async def _until_changed(
    sender: Sender,
    controls: Iterable[ControlRequest],
    tally: Tally,
    keep: Callable[[Sample], None],
) -> list[ControlTry]:
    """Send controls until one changes the answer."""
    tries: list[ControlTry] = []
    for control in controls:
        tries.append(_judged(control, await _sample(sender, control, tally, keep), tally))
        if tries[-1].same is False:
            break
    return tries


async def _sample(
    sender: Sender, control: ControlRequest, tally: Tally, keep: Callable[[Sample], None]
) -> Sample:
    """The answer to one control, also if it is an error."""
    made: list[Sample] = []
    sample = functools.partial(Sample, arm=tally.arm.value, start=tally.number, pass_=NO_PASS)
    await collect(sender, [control.request], sample, made.append)
    # The prompt stands in no file: a person needs it to look at the answer.
    meta = {**made[0].meta, "body": control.request.body}
    answer = replace(made[0], meta=meta)
    keep(answer)
    return answer


def _judged(control: ControlRequest, answer: Sample, tally: Tally) -> ControlTry:
    if answer.digest is None:
        error = answer.error or "no answer"
        return ControlTry(request=control.original, telling=control.telling, error=error)
    digests, changed = tally.digests, answer.digest
    if control.by_tokens:
        # Numbers alone may differ by noise, whatever the prompt was.
        digests, changed = tally.tokens, answer.tokens_digest or answer.digest
    given: Iterable[str] = digests.get(control.original, {}).values()
    words, _ = tally.variety[control.original]
    if words >= _MANY_WORDS:
        # So long an answer to a prompt that nobody sent before is none of another request.
        given = itertools.chain.from_iterable(each.values() for each in digests.values())
    return ControlTry(request=control.original, telling=control.telling, same=changed in given)


# --- the proof of an arm: that its path ran in a start ---
# Counters must have risen by the requests, lines must have been logged since the first one. Without such
# a proof, a candidate whose cache is switched off passes everything.

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
