# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: one start of an arm that gets the steps of a localisation."""

import asyncio
import shutil
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.attempt import ExperimentProgress, StartAttempt
from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.evidence.samples import Sample, SampleWriter
from ci_doctor.correctness.localise.compare_steps import StepAnswers
from ci_doctor.correctness.localise.gate_answers import GateAnswers
from ci_doctor.correctness.localise.steps import LocalisationStep
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, ExperimentPlan
from ci_doctor.correctness.start_tools import CACHES, start_tools
from ci_doctor.correctness.tally import Tally
from ci_doctor.system import clock


class LocalEvidence(Struct, frozen=True, kw_only=True):
    """Where the answers of such starts go. `words` names the condition of a step."""

    samples: SampleWriter
    outputs: Outputs
    gate: GateAnswers
    words: Callable[[LocalisationStep], str]
    tell: Callable[[ExperimentProgress], None]


class LocalStart(Struct, frozen=True, kw_only=True):
    """A start that has ended, and its answers to each step that it ended."""

    result: StartResult
    answers: tuple[StepAnswers, ...]


async def make_start(
    plan: ExperimentPlan,
    arm: Arm,
    number: int,
    steps: Sequence[LocalisationStep],
    evidence: LocalEvidence,
) -> LocalStart:
    """Start an arm, send it the steps in their order, and stop it at the plan's deadline at last.

    Raises what `StartAttempt` raises, CancelledError included; no process is left then.
    """
    samples: list[Sample] = []

    def keep(sample: Sample) -> None:
        samples.append(_kept(sample, steps[sample.pass_ - 1], evidence))

    tally = Tally(arm=arm, number=number, ids=(), passes=1)
    caches = plan.directory / CACHES
    # Both arms of a pair on the same one: what differs is not the device.
    device = next(iter(plan.places), "")
    with start_tools(plan, caches / tally.name, keep, evidence.tell, device) as given:
        tools = replace(given, passes=tuple(step.sent for step in steps))
        attempt = StartAttempt(plan, tally, tools)
        try:
            async with asyncio.timeout(plan.deadline - clock.now()):
                await attempt.run()
        except TimeoutError:
            # `whole` stays False: the result says that it was cut short.
            pass
        finally:
            result = attempt.result()
            shutil.rmtree(caches, ignore_errors=True)
    return LocalStart(result=result, answers=_answers(steps, samples, evidence.gate))


def _kept(sample: Sample, step: LocalisationStep, evidence: LocalEvidence) -> Sample:
    """The sample as it is written: with its condition, and with a body that stands in no file."""
    meta = {**sample.meta, "condition": evidence.words(step)}
    if step.condition.prefix is not None or step.condition.without is not None:
        meta["body"] = step.sent.requests[-1].body
    written = replace(sample, meta=meta)
    place = evidence.samples.write(written)
    if sample.digest is not None:
        evidence.outputs.note(sample.digest, evidence.samples.path, place)
    return written


def _answers(
    steps: Sequence[LocalisationStep], samples: Sequence[Sample], gate: GateAnswers
) -> tuple[StepAnswers, ...]:
    """The answers to each step that got them all."""
    given: list[dict[str, str | None]] = [{} for _ in steps]
    for sample in samples:
        key = None
        if sample.digest is not None:
            # Of each step its own: answers to a shorter prompt have nothing to do with these.
            key = gate.key(f"{sample.pass_}:{sample.id}", sample.digest)
        given[sample.pass_ - 1][sample.id] = key
    ended = []
    for step, answers in zip(steps, given, strict=True):
        if len(answers) < len(step.sent.requests):
            break
        ended.append(answers)
    return tuple(ended)
