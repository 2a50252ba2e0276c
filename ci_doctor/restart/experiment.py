# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: makes a whole check, from the first start of the services to their stop."""

import asyncio
from collections.abc import Callable

from ci_doctor.load.looks import count_prompts
from ci_doctor.restart.named_memory import named_memory
from ci_doctor.restart.notes import Notes, RestartProgress
from ci_doctor.restart.observed import Observation, Phase, RestartEnding
from ci_doctor.restart.phases import FailedError, Phases
from ci_doctor.restart.settings import RestartPlan
from ci_doctor.services.group import start_group
from ci_doctor.services.outcome import FailureKind, ServiceFailure
from ci_doctor.services.spec import LaunchContext
from ci_doctor.system import clock
from ci_doctor.system.gpu_memory import read_gpu_memory
from ci_doctor.system.processes.interruption import Interruption

# A start that is not ready so few seconds before the budget ends was not ready because of it.
_CLOSE_S = 0.5


def observe(
    plan: RestartPlan, interruption: Interruption, on_progress: Callable[[RestartProgress], None]
) -> Observation:
    """Make the check, and return what was observed.

    Ends by itself at the deadline and on a signal, with no process left. `interruption` is handling
    signals. Raises UsageError and InfraError as `start_group` and `ask` do.
    """
    with asyncio.Runner() as runner:
        return runner.run(_to_the_end(plan, interruption, on_progress))


async def _to_the_end(
    plan: RestartPlan, interruption: Interruption, on_progress: Callable[[RestartProgress], None]
) -> Observation:
    notes = Notes(len(plan.requests), on_progress, compare=plan.same_outputs)
    notes.note(prompts=count_prompts(plan.requests))
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - we are in one
    ending = RestartEnding.COMPLETE
    try:
        with interruption.watch(task):
            async with asyncio.timeout(plan.deadline - clock.now()):
                await _with_services(plan, notes)
    except TimeoutError:
        ending = RestartEnding.BUDGET
    except asyncio.CancelledError:
        # Without a signal it was the caller who cancelled, and who must learn that it worked.
        if interruption.received is None:
            raise
    # A signal counts even if the check was complete by then: its sender waits for no verdict.
    if interruption.received is not None:
        ending = RestartEnding(interruption.received.name)
    return notes.observation(ending)


async def _with_services(plan: RestartPlan, notes: Notes) -> None:
    context = LaunchContext(
        environment=plan.environment,
        directory=plan.services_directory,
        log_directory=plan.directory / "logs",
        limit_s=plan.deadline - clock.now(),
    )
    if plan.gpu_memory:
        # Before the first start: what is in use now is not the services'.
        notes.gpu_before = read_gpu_memory()
    if plan.shared_memory:
        notes.memory_before = named_memory()
    launched = await start_group(plan.specs, plan.names, context, notes.event)
    if isinstance(launched, ServiceFailure):
        is_late = clock.now() >= plan.deadline - _CLOSE_S
        if launched.kind is FailureKind.NOT_READY and is_late:
            raise TimeoutError
        notes.note(failures=(launched,), failed_in=Phase.BASELINE)
        return
    try:
        await Phases(plan, launched, context, notes).all()
    except FailedError:
        notes.note(failures=tuple(launched.failures), failed_in=notes.phase)
    finally:
        # Also after an error or a cancellation: no process may be left.
        notes.note(stopped=await launched.stop(grace_s=plan.grace_s))
