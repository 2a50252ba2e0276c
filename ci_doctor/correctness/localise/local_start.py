# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: one start of an arm that gets a trial of a localisation."""

import asyncio
import itertools
import shutil
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.attempt import ExperimentProgress, StartAttempt
from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.evidence.samples import Sample, SampleWriter
from ci_doctor.correctness.localise.gate_answers import GateAnswers
from ci_doctor.correctness.localise.trials import SentAnswer, StartAnswers, Trial, words
from ci_doctor.correctness.pass_plan import PassPlan
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, ExperimentPlan
from ci_doctor.correctness.start_tools import CACHES, start_tools
from ci_doctor.correctness.tally import Tally
from ci_doctor.load.requests import Request
from ci_doctor.system import clock


class LocalEvidence(Struct, frozen=True, kw_only=True):
    """Where the answers of such starts go. `requests` are those that trials name."""

    samples: SampleWriter
    outputs: Outputs
    gate: GateAnswers
    requests: Mapping[str, Request]
    changed: Collection[str]
    tell: Callable[[ExperimentProgress], None]


class LocalStart(Struct, frozen=True, kw_only=True):
    """A start that has ended, and its answers to each block of the trial that it ended."""

    result: StartResult
    answers: StartAnswers


async def make_start(
    plan: ExperimentPlan, arm: Arm, number: int, trial: Trial, evidence: LocalEvidence
) -> LocalStart:
    """Start an arm, send it the trial, and stop it at the plan's deadline at last.

    Raises what `StartAttempt` raises, CancelledError included; no process is left then.
    """
    given: list[dict[str, SentAnswer]] = [{} for _ in trial.blocks]
    ended: list[float] = []

    def keep(sample: Sample) -> None:
        # The time since the first answer, or since the pause before it began.
        before = trial.pause_s if len(trial.blocks) == 1 else 0.0
        ended.append(clock.now())
        answer = _answer(_kept(sample, trial, evidence), evidence)
        at_s = ended[-1] - ended[0] + before
        given[sample.pass_ - 1][sample.id] = replace(answer, at_s=at_s)

    tally = Tally(arm=arm, number=number, ids=(), passes=1)
    caches = plan.directory / CACHES
    # Both arms of a pair on the same one: what differs is not the device.
    device = next(iter(plan.places), "")
    with start_tools(plan, caches / tally.name, keep, evidence.tell, device) as tools:
        attempt = StartAttempt(plan, tally, replace(tools, passes=_passes(trial, evidence)))
        try:
            async with asyncio.timeout(plan.deadline - clock.now()):
                await attempt.run()
        except TimeoutError:
            # `whole` stays False: the result says that it was cut short.
            pass
        finally:
            result = attempt.result()
            shutil.rmtree(caches, ignore_errors=True)
    whole = itertools.takewhile(
        lambda pair: len(pair[0]) == len(pair[1].names), zip(given, trial.blocks, strict=True)
    )
    return LocalStart(result=result, answers=[answers for answers, _ in whole])


def _passes(trial: Trial, evidence: LocalEvidence) -> tuple[PassPlan, ...]:
    passes = [
        PassPlan(
            requests=tuple(evidence.requests[name] for name in block.names),
            concurrency=block.at_once,
            resets=block.resets,
        )
        for block in trial.blocks
    ]
    return (*passes[:-1], replace(passes[-1], pause_s=trial.pause_s))


def _kept(sample: Sample, trial: Trial, evidence: LocalEvidence) -> Sample:
    """The sample as it is written: with its condition, and with a body that stands in no file."""
    meta = {**sample.meta, "condition": words(trial)}
    if sample.id in evidence.changed:
        meta["body"] = evidence.requests[sample.id].body
    written = replace(sample, meta=meta)
    place = evidence.samples.write(written)
    if sample.digest is not None:
        evidence.outputs.note(sample.digest, evidence.samples.path, place)
    return written


def _answer(sample: Sample, evidence: LocalEvidence) -> SentAnswer:
    if sample.digest is None:
        return SentAnswer(answer=None)
    tokens = (
        sample.prompt_facts.get("prompt_tokens"),
        (sample.output or {}).get("completion_tokens"),
    )
    prompt_tokens, answer_tokens = (each if type(each) is int else 0 for each in tokens)
    return SentAnswer(
        # Of each request its own: answers to another prompt have nothing to do with these.
        answer=evidence.gate.key(sample.id, sample.digest),
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
    )
