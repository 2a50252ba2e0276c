# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: runs one command under a group of services, or the group alone."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from ci_doctor.errors import UsageError
from ci_doctor.model.facts.launch import ClientRun, ServiceFailure, StopResult
from ci_doctor.model.outcome import Outcome
from ci_doctor.services.busy_timeout import BusyTimeout
from ci_doctor.services.check import check_scripts, check_services
from ci_doctor.services.failure_cause import lived, with_cause_elsewhere
from ci_doctor.services.group import start_group
from ci_doctor.services.instance import ServiceEvent, Starts
from ci_doctor.services.launch_plan import check_words, client_environment, filled_words, problem
from ci_doctor.services.launch_report import (
    Launched,
    LaunchPlan,
    LaunchRequest,
    outcome_of,
    refused,
)
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext, port_names
from ci_doctor.system import clock
from ci_doctor.system.files.access import make_directory
from ci_doctor.system.processes.interruption import Interruption, hand_on
from ci_doctor.system.processes.process import Child, describe_exit, has_ended, is_ending
from ci_doctor.system.processes.process_table import look_up
from ci_doctor.system.secrets.redaction import Redactor, redact_files


def event_writer(
    path: Path, redactor: Redactor, warn: Callable[[str], None], stack: contextlib.ExitStack
) -> Callable[[ServiceEvent], None]:
    """What writes each event as a line to a new file, or to a pipe that is being read, at once.

    The values of secrets stay out of it. A file that cannot be written any more stops nothing:
    `warn` gets one sentence. Raises UsageError if the file cannot be made.
    """
    warned = torn = False
    try:
        make_directory(path.parent)
        # O_NONBLOCK, because the open of a pipe without a reader would block.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
        file = stack.enter_context(os.fdopen(os.open(path, flags, 0o644), "wb", 0))
    except OSError as error:
        raise UsageError(
            f"cannot write events to {path}: {error.strerror or error}",
            hint="name a file that this user can write, or a pipe that is being read",
        ) from error

    def write(event: ServiceEvent) -> None:
        nonlocal warned, torn
        fields = {"time": clock.timestamp(), **msgspec.to_builtins(event)}
        line = redactor.without_values(msgspec.json.encode(fields).decode())
        # Behind a line that was cut off. A log line or path may hold bytes that are no UTF-8.
        start = "\n" if torn else ""
        content = f"{start}{line}\n".encode("utf-8", "replace")
        try:
            while content:
                # Not by the file itself, which raises nothing if a pipe is full.
                written = os.write(file.fileno(), content)
                torn = written < len(content)
                content = content[written:]
        except OSError as error:
            # Once: a full disk would repeat it with each event.
            if not warned:
                warned = True
                warn(f"cannot write events to {path}: {error.strerror or error}")

    return write


# What the client has to end, of the agent's 10 s, after a signal to ourselves: once we have asked
# it; and if Ctrl-C has reached it already.
_LAST_S = 1.0
_AFTER_CTRL_C_S = 2.0


class RunningClient:
    """The command under the services, started. If it cannot be, `unable` tells why, as errno."""

    def __init__(
        self,
        words: Sequence[str],
        group: RunningGroup,
        *,
        environment: Mapping[str, str],
        directory: Path,
        output: int,
    ) -> None:
        """Run `words` on our own stdin and stderr, their stdout on the descriptor `output`.

        They run in the group's tree and in our process group.
        """
        services = group.services.values()
        self.words = filled_words(words, services, group.ports)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.unable: int | None = None
        self._began = clock.now()
        self._duration_s = 0.0
        self._end_requested = False
        self._child: Child | None = None
        try:
            self._child = group.launch(
                self.words,
                environment=client_environment(environment, services),
                directory=directory,
                output=output,
                error=2,
                input=0,
                # It may read the terminal, and Ctrl-C must reach it.
                foreground=True,
            )
        except OSError as error:
            self.unable = error.errno
            return
        asyncio.get_running_loop().add_reader(self._child.pidfd, self._has_just_ended)

    def _has_just_ended(self) -> None:
        assert self._child is not None  # noqa: S101 - its pidfd became readable
        asyncio.get_running_loop().remove_reader(self._child.pidfd)
        self._duration_s = clock.now() - self._began
        self._child.wait()  # while the guardian can still answer: it ends with the group
        if not self.ended.done():
            self.ended.set_result(None)

    def has_ended(self) -> bool:
        """Whether it has, even if the event loop has not noticed yet."""
        if self._child is None:
            return False
        return self.ended.done() or has_ended(self._child.pidfd)

    def returncode(self) -> int | None:
        """As subprocess has it, once it has ended."""
        if self._child is None or not self.has_ended():
            return None
        return self._child.wait()

    async def end(self, number: signal.Signals, limit_s: float) -> None:
        """Ask it to end, and wait until it has or time is up."""
        if self._child is None or self.has_ended():
            return
        self._end_requested = True
        try:
            signal.pidfd_send_signal(self._child.pidfd, number)
        except ProcessLookupError:
            return
        await asyncio.wait({self.ended}, timeout=limit_s)

    async def follow(self, number: signal.Signals) -> None:
        """End it as we end."""
        if self._child is None:
            return
        self._end_requested = True
        await hand_on(
            number, self._child.pidfd, self.ended, limit_s=_LAST_S, ctrl_c_s=_AFTER_CTRL_C_S
        )

    def result(self) -> ClientRun:
        """What became of it, once nobody waits for it any more: its pidfd is closed then."""
        returncode = self.returncode()
        run = ClientRun(
            words=self.words,
            returncode=returncode,
            duration_s=self._duration_s or clock.now() - self._began,
            peak_rss=self._child.peak_rss if self._child is not None else None,
            end_requested=self._end_requested,
            unable=self.unable,
        )
        if self._child is not None:
            asyncio.get_running_loop().remove_reader(self._child.pidfd)
            self._child.close()
        return run


# A client that fails because its server dies may end before that server.
_SAME_MOMENT_S = 0.05
# A server on its way out takes its time, with the memory of a model to give back.
_LONGEST_DEATH_S = 5.0
_DEATH_PAUSE_S = 0.01
# What a client has to end by itself once a service is gone; the tree's own stop comes after it.
_CLIENT_GRACE_S = 2.0
_GRACE_S = 5.0
_STOP_S = 8.0


def launch(
    plan: LaunchPlan,
    interruption: Interruption,
    on_event: Callable[[ServiceEvent], None],
    on_ready: Callable[[RunningGroup], None] = lambda _: None,
) -> Launched:
    """Start the services, run the client, stop everything: no process is left, however it ends.

    `interruption` is handling signals: the first ends the launch in order, a second at once.
    `on_ready` is called once all services are ready. Raises UsageError and InfraError as
    `start_group` does.
    """
    with asyncio.Runner() as runner:
        return runner.run(_Launch(plan, on_event, on_ready).to_the_end(interruption))


class _Launch:
    """A launch under way."""

    def __init__(
        self,
        plan: LaunchPlan,
        on_event: Callable[[ServiceEvent], None],
        on_ready: Callable[[RunningGroup], None],
    ) -> None:
        self.plan = plan
        self.request = plan.request
        self.on_event = on_event
        self.on_ready = on_ready
        self.record = Starts(plan.order)
        self.group: RunningGroup | None = None
        self.client: RunningClient | None = None
        self.stopped: StopResult | None = None
        self.end = Launched()
        self.decided = False
        # Bytes in the log of each service when the client began.
        self._written: dict[str, int] = {}

    async def to_the_end(self, interruption: Interruption) -> Launched:
        with interruption.watch():
            try:
                await self._run()
            except asyncio.CancelledError:
                if interruption.received is None:
                    raise
                # A result stands: a signal after it has only hurried the end.
                if not self.decided:
                    self.end.received = interruption.received
                await self._wind_down(interruption.received)
            finally:
                # The last resort, also after an error of ours: no process may be left.
                if self.group is not None:
                    self.stopped = self.stopped or self.group.kill_now()
        end = self.end
        end.services = self.record.runs
        if self.client is not None:
            end.client = self.client.result()
        end.failure = self._with_consequences(end.client)
        # A client that was never run is reported too, with no duration.
        if end.client is None and self.request.client:
            end.client = ClientRun(words=self.request.client)
        end.stopped = self.stopped or StopResult(killed=tuple(self.record.killed), duration_s=0.0)
        return end

    async def _run(self) -> None:
        launched = await start_group(
            self.request.specs, self.request.names, self.plan.context, self._event
        )
        if isinstance(launched, ServiceFailure):
            self.end.failure = launched
            self.stopped = launched.stopped
            self.decided = True
            return
        self.group = launched
        self.on_ready(launched)
        if self.request.client:
            for name, service in launched.services.items():
                self._written[name] = service.log.stat().st_size
            self.client = RunningClient(
                self.request.client,
                launched,
                environment=self.request.environment,
                directory=self.request.client_directory.absolute(),
                output=self.request.client_output,
            )
        await self._to_the_first_end(launched)
        self.decided = True
        # The client's server is gone: let it end before the rest, so that its last words are its
        # own.
        if self.end.failure is not None and self.client is not None:
            await self.client.end(signal.SIGTERM, _CLIENT_GRACE_S)
        self.stopped = await launched.stop()

    def _event(self, event: ServiceEvent) -> None:
        self.record.add(event)
        self.on_event(event)

    async def _to_the_first_end(self, group: RunningGroup) -> None:
        """Wait for the client or a service, and decide which of them was the cause."""
        if self.client is None:
            await asyncio.wait({group.death})
            self.end.failure = group.death.result()
            return
        if self.client.unable is not None:
            return
        ends: set[asyncio.Future[Any]] = {group.death, self.client.ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        # A client that has ended well got all that it needed: a death is only worth a note then.
        well = self.client.has_ended() and self.client.returncode() == 0
        if not well:
            await _death_soon(group)
            if group.has_lost():
                # A server that has lost its engine answers with errors until it ends.
                await asyncio.wait({group.death}, timeout=_LONGEST_DEATH_S)
        death = group.death.result() if group.death.done() else None
        if well:
            self.end.late = death
        else:
            self._blame(group, death)

    def _blame(self, group: RunningGroup, death: ServiceFailure | None) -> None:
        """Decide who is the cause of the end of a client that failed, or runs on without its service."""
        lost = group.loss()
        self.end.failure = death
        if death is None and lost is None:
            told = (
                lived(instance.subject(clock.now()), self._written.get(name, 0))
                for name, instance in group.instances.items()
            )
            self.end.beside = next(filter(None, told), None)
        # After a loss its own end says less. A server that recycles its workers lives on as it was.
        elif lost is not None and lost.successor is not None:
            self.end.beside = lost
        elif lost is not None and (death is None or _follows(death, lost)):
            self.end.failure = lost

    async def _wind_down(self, number: signal.Signals) -> None:
        """After a signal: the client first, then the rest, in less than the agent's grace.

        A second signal ends this at once.
        """
        if self.group is None:
            self.end.hurried = True
            return
        began = clock.now()
        try:
            if self.client is not None:
                await self.client.follow(number)
            # The agent kills a cancelled job after 10 s, and the report must be written by then.
            async with asyncio.timeout(_STOP_S):
                grace_s = max(0.5, _GRACE_S - (clock.now() - began))
                self.stopped = await self.group.stop(grace_s=grace_s)
        except (asyncio.CancelledError, TimeoutError) as error:
            self.end.hurried = isinstance(error, asyncio.CancelledError)
            self.stopped = self.group.kill_now(at_once=self.end.hurried)

    def _with_consequences(self, client: ClientRun | None) -> ServiceFailure | None:
        """The failure with what followed from it: the end of the client, and other deaths."""
        failure = self.end.failure
        if failure is None or self.group is None:
            return failure
        consequences = []
        if client is not None:
            consequences.append(_of_client(client))
        later = [other.message for other in self.group.failures if other is not failure]
        consequences.extend(later)
        failure = structs.replace(failure, consequences=tuple(consequences))
        return with_cause_elsewhere(failure, self.group.instances.values())


def _follows(death: ServiceFailure, lost: ServiceFailure) -> bool:
    """Whether a service ended soon after it had lost a process."""
    return death.service == lost.service and 0 <= death.at - lost.at <= _LONGEST_DEATH_S


async def _death_soon(group: RunningGroup) -> None:
    """Wait for a death that is about to come, after a client that did not end well."""
    time_limit = BusyTimeout(_SAME_MOMENT_S, group.living_pids, hard_limit_s=_LONGEST_DEATH_S)
    await time_limit.wait(group.death)
    # The kernel closes a dying process's sockets first and frees its memory then: a client may be
    # gone before its server is.
    deadline = clock.now() + _LONGEST_DEATH_S
    while not group.death.done() and clock.now() < deadline:
        kins = [look_up(instance.process.pid) for instance in group.instances.values()]
        # One that is gone has ended, and only the event loop does not know it yet.
        if not any(kin is None or is_ending(kin.pid, kin.started) for kin in kins):
            return
        await asyncio.wait({group.death}, timeout=_DEATH_PAUSE_S)


def _of_client(client: ClientRun) -> str:
    """`pytest was stopped by ci-doctor, and ended with exit code 2`."""
    if client.returncode is None:
        end = "ended"
    elif client.returncode < 0:
        end = f"was {describe_exit(client.returncode)}"
    else:
        end = f"ended with {describe_exit(client.returncode)}"
    if client.end_requested:
        return f"{client.name} was stopped by ci-doctor, and {end}"
    return f"{client.name} {end}"


def make_plan(request: LaunchRequest) -> LaunchPlan:
    """Check everything before anything is started. Raises UsageError for what cannot work."""
    context = LaunchContext(
        environment=request.environment,
        directory=request.services_directory.absolute(),
        log_directory=request.directory.absolute() / "logs",
        limit_s=request.limit_s,
    )
    order = check_services(request.specs, request.names, context)
    check_scripts(request.specs, order, context)
    further = port_names(request.specs, order)[len(order) :]
    check_words(request.client, order, further)
    return LaunchPlan(request=request, order=order, context=context)


def client_problem(request: LaunchRequest) -> Outcome | None:
    """Why the client cannot be run, as a shell would report it; None if it can."""
    if not request.client:
        return None
    directory = request.client_directory.absolute()
    refusal = problem(request.client[0], request.environment, directory)
    if refusal is None:
        return None
    status, message = refusal
    return refused(status, message)


def run(
    plan: LaunchPlan,
    *,
    redactor: Redactor,
    interruption: Interruption | None = None,
    on_event: Callable[[ServiceEvent], None] = lambda _: None,
    on_ready: Callable[[RunningGroup], None] = lambda _: None,
    on_warning: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Start the services, run the client under them, stop everything, and judge.

    No process is left, however it ends. Logs lie in the `logs` of the request's `directory`,
    without the secrets that `redactor` knows. `interruption` is handling signals already; without
    one, signals are handled here. `on_event` gets each event of a service, `on_ready` the group
    once all are ready. Raises UsageError and InfraError as `start_group`.
    """
    # Before the services: minutes of loading a model, and then no client to use it.
    unable = client_problem(plan.request)
    if unable is not None:
        return unable
    logs: set[Path] = set()

    with contextlib.ExitStack() as stack:
        if interruption is None:
            interruption = Interruption()
            stack.enter_context(interruption.handling())
        listeners = [on_event]
        # First, so that an event is on disk before anybody acts on it.
        if plan.request.events is not None:
            listeners.insert(0, event_writer(plan.request.events, redactor, on_warning, stack))

        def pass_on(event: ServiceEvent) -> None:
            if event.log is not None:
                logs.add(Path(event.log))
            for listener in listeners:
                listener(event)

        try:
            launched = launch(plan, interruption, pass_on, on_ready)
        finally:  # whatever has ended it
            for warning in redact_files(logs, redactor):
                on_warning(warning)
    directory = plan.request.directory.absolute()
    return outcome_of(launched, directory=directory, cwd=Path.cwd(), events=plan.request.events)
