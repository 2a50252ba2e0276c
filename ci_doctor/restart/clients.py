# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and the network: who asks the services, by HTTP or by a command of the user's."""

import contextlib
import hashlib
import os
import signal
from collections.abc import AsyncIterator, Sequence

from ci_doctor.errors import UsageError
from ci_doctor.load.canonical import Canonical
from ci_doctor.load.requests import Request
from ci_doctor.load.sending import LARGEST_ANSWER, Ask, Asking, Reply, Sender, time_limit
from ci_doctor.model.words import shortened
from ci_doctor.restart.settings import RestartPlan
from ci_doctor.services.busy_timeout import all_waits
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import fill, placeholders_for
from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import end_awaited
from ci_doctor.system.processes.process import Child, describe_exit, has_ended

_LONGEST_LINE = 300
# Of what a command says, the last line is looked for in so many bytes.
_END = 16 * 1024


def start_command(
    plan: RestartPlan,
    group: RunningGroup,
    key: str,
    words: Sequence[str],
    *,
    streams: tuple[int | None, int, int],
    **placeholders: str,
) -> Child:
    """Start the command that the setting `key` names, in the tree of `group`.

    `streams` are descriptors of its standard input (None: empty), output and error. Raises UsageError if it
    cannot be run.
    """
    # A command before the first start has no port to ask for.
    known = dict(placeholders)
    if group.ports:
        known |= placeholders_for(plan.names[-1], plan.context, group.ports)
    filled = [fill(word, known) for word in words]
    source, output, error = streams
    try:
        return group.launch(
            filled,
            environment=plan.context.environment,
            directory=plan.context.directory,
            output=output,
            error=error,
            input=source,
        )
    except OSError as problem:
        raise UsageError(
            f"{key}: cannot run {filled[0]}: {problem.strerror}",
            hint="name a program on PATH, or one relative to the configuration",
        ) from problem


def sender_of(plan: RestartPlan, group: RunningGroup) -> Asking:
    """What makes the requests of `plan`: HTTP to the answering service, or the command `client`."""
    if plan.client:
        return Clients(plan, group)
    return Sender(
        base_url=group.endpoint.base_url,
        concurrency=plan.settings.concurrency,
        timeout_s=plan.terms.request_timeout_s,
        waits=all_waits(group.living_pids),
    )


class Clients:
    """Runs the command `client` once for each request; `{run}` in it is the request's id.

    Exit code 0 is an answer, and its standard output the text of that. Whoever does not end in time
    is killed with its process group, and hung.
    """

    def __init__(self, plan: RestartPlan, group: RunningGroup) -> None:
        self.concurrency = plan.settings.concurrency
        self._plan = plan
        self._group = group
        self._waits = all_waits(group.living_pids)

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator[Ask]:
        """What runs one client. Raises UsageError if the command cannot be run."""
        yield self._run

    async def _run(self, request: Request) -> Reply:
        began = clock.now()
        output, error = os.memfd_create("output"), os.memfd_create("error")
        try:
            child = start_command(
                self._plan,
                self._group,
                "client",
                self._plan.client,
                streams=(None, output, error),
                run=request.id,
            )
            problem, hung = await self._ended(child)
            said = os.pread(output, LARGEST_ANSWER, 0)
            if problem and (last := _last_line(error) or _last_line(output)):
                problem = f"{problem}: {last}"
        finally:
            os.close(output)
            os.close(error)
        return Reply(
            id=request.id,
            sent_at=began,
            ended_at=clock.now(),
            answer=None if problem else _answer(said),
            error=problem,
            hung=hung,
        )

    async def _ended(self, child: Child) -> tuple[str | None, bool]:
        """What is wrong with its end, and whether that did not come in time."""
        limit_s = self._plan.terms.request_timeout_s
        try:
            with end_awaited(child.pidfd) as ended:
                async with time_limit(limit_s, self._waits):
                    await ended
            code = child.wait()
        except TimeoutError:
            return f"the client did not end in {limit_s:g} s", True
        finally:
            if not has_ended(child.pidfd):
                # It leads a group of its own, and nobody has waited for it: the number is still its own.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            child.close()
        if code == 0:
            return None, False
        end = "in a way that nobody saw" if code is None else describe_exit(code)
        return f"the client ended: {end}", False


def _answer(said: bytes) -> Canonical:
    text = said.decode(errors="replace")
    return Canonical(
        output={"choices": [{"text": text}]},
        digest=hashlib.sha256(said).hexdigest(),
        meta={},
        prompt_facts={},
        empty=not text,
    )


def _last_line(descriptor: int) -> str:
    """The last line that is not empty."""
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, _END, max(0, size - _END)).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return shortened(lines[-1], _LONGEST_LINE) if lines else ""
