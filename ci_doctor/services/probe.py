# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets, files and processes: probes a service again and again until it is ready."""

import asyncio
import contextlib
import errno
import math
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path

from msgspec import Struct, structs

from ci_doctor.errors import UsageError
from ci_doctor.services import http_answer
from ci_doctor.services.busy_timeout import SHORTEST_ATTEMPT_S, BusyTimeout, no_processes
from ci_doctor.services.logs import TURN_BYTES, LogSearch
from ci_doctor.services.ready import ReadinessProbe, Scheme
from ci_doctor.system import clock
from ci_doctor.system.files.growing import FileWatch, GrowingFile
from ci_doctor.system.processes.interruption import end_awaited
from ci_doctor.system.processes.process import Child, describe_exit, has_ended
from ci_doctor.system.secrets.private_keys import shortened_words, without_keys


class Telling(IntEnum):
    """How much an answer says about the cause, least first."""

    # Nobody is there: refused, no address, no such file.
    ABSENT = 0
    # Somebody is there, and did not answer in time.
    SILENT = 1
    # Something came: a status, a body, an exit code, a line of a log.
    ANSWERED = 2


class ProbeAnswer(Struct, frozen=True, kw_only=True):
    """Why one attempt failed.

    `cut`: the end of the whole time left the attempt less than its own, so its silence says little.
    """

    text: str
    telling: Telling = Telling.ANSWERED
    cut: bool = False


def more_telling(best: ProbeAnswer | None, answer: ProbeAnswer) -> ProbeAnswer:
    """The one of both that says more; the newer of two that say as much."""
    # A service may get further with every second.
    is_better = best is None or best.cut or (answer.telling >= best.telling and not answer.cut)
    return answer if is_better or best is None else best


_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.05  # what becomes ready is noticed within 100 ms, with time for the attempt
_REFUSED = "connection refused"
# Of a limit of 0: what a server that is ready needs to say so on a busy machine.
_ONLY_ATTEMPT_S = 1.0


class ProbeContext(Struct, frozen=True, kw_only=True):
    """What a probe works with.

    `log` is the service's, searched from the offset `log_from` on. `environment` holds what `authorization` names. `spawn` starts words
    with stdout and stderr on a file descriptor, for `exec`. `pids` names the service's processes
    now.
    """

    log: Path | None = None
    log_from: int = 0
    environment: Mapping[str, str] = {}
    spawn: "Callable[[Sequence[str], int], Child] | None" = None
    pids: Callable[[], Iterable[int]] = no_processes


NO_CONTEXT = ProbeContext()


def ignore(_answer: str) -> None:
    """Ignore the answers of failed attempts."""


async def wait_until_ready(
    probe: ReadinessProbe,
    limit: float | BusyTimeout,
    context: ProbeContext = NO_CONTEXT,
    *,
    on_answer: Callable[[str], None] = ignore,
) -> str | None:
    """None once `probe` has held for its `ready_for_s`, else what was wrong.

    That is the most telling answer of all attempts: a status beats silence, and an attempt that was
    cut by the end of the time counts only if there was no other.

    `limit` is seconds, in which waits of the service for a CPU do not count (BusyTimeout); with 0
    there is one attempt, of one second at most. `on_answer` gets what is wrong after each attempt but the last. A
    log is searched from its beginning, and a match in it holds from then on.

    Raises UsageError if there can be no attempt: no log, a variable that is not set, a command that
    does not exist.
    """
    prober = _prober(probe, context)
    time_limit = limit if isinstance(limit, BusyTimeout) else BusyTimeout(limit, context.pids)
    held_since: float | None = None
    best: ProbeAnswer | None = None
    least_s = 0.0 if time_limit.limit_s > 0 else min(_ONLY_ATTEMPT_S, probe.attempt_s)
    try:
        while True:
            answer = await prober.ask(max(least_s, time_limit.attempt_s(probe.attempt_s)))
            to_hold_s = math.inf
            if answer is None:
                now = clock.now()
                held_since = now if held_since is None else held_since
                held_s = now - held_since
                if held_s >= probe.ready_for_s:
                    return None
                to_hold_s = probe.ready_for_s - held_s
                text = (
                    f"it has been ready for {held_s:.1f} s, and must be for {probe.ready_for_s:g} s"
                )
                answer = ProbeAnswer(text=text)
            else:
                held_since = None
            best = more_telling(best, answer)
            # After the attempt: a limit of 0 still allows one.
            left_s = time_limit.left_s()
            if left_s <= 0:
                return best.text
            on_answer(answer.text)
            await prober.rest(min(left_s, to_hold_s))
    finally:
        prober.close()


async def attempt(probe: ReadinessProbe, context: ProbeContext, patience: int = 1) -> str | None:
    """None if `probe` holds in one attempt of `patience` times its full time, else what was wrong.

    Raises UsageError as `wait_until_ready`.
    """
    prober = _prober(probe, context)
    try:
        answer = await prober.ask(patience * probe.attempt_s)
        return None if answer is None else answer.text
    finally:
        prober.close()


def _prober(probe: ReadinessProbe, context: ProbeContext) -> "_Prober":
    """What makes the attempts of this kind of probe. Raises UsageError as `wait_until_ready`."""
    match probe.scheme:
        case Scheme.ALL | Scheme.ANY:
            return _GroupProber(probe, context)
        case Scheme.EXEC:
            return _ExecProber(probe, context)
        case Scheme.LOG:
            return _LogProber(probe, context)
        case Scheme.FILE:
            return _FileProber(probe)
        case _:
            return _NetworkProber(probe, context)


class _Prober:
    """One kind of probe, while a service is probed; `pause_s` is the time to its next attempt."""

    pause_s = _LONGEST_PAUSE_S

    async def ask(self, limit_s: float) -> ProbeAnswer | None:
        """None if it holds now, else what is wrong; takes `limit_s` seconds at most."""
        raise NotImplementedError

    async def rest(self, longest_s: float) -> None:
        """Return when another attempt is due, after `longest_s` seconds at the latest."""
        await asyncio.sleep(min(longest_s, self.pause_s))

    def close(self) -> None:
        """Give everything back."""


class _GroupProber(_Prober):
    """All of its parts, one after the other until one does not hold; or any of them, at once."""

    def __init__(self, probe: ReadinessProbe, context: ProbeContext) -> None:
        self._parts = [(part, _prober(part, context)) for part in probe.parts]
        self._are_all_needed = probe.scheme is Scheme.ALL

    async def ask(self, limit_s: float) -> ProbeAnswer | None:
        deadline = clock.now() + limit_s
        try:
            if self._are_all_needed:
                for part, prober in self._parts:
                    # Each gets a try: what is left may be nothing, after one that was slow.
                    left_s = max(deadline - clock.now(), SHORTEST_ATTEMPT_S)
                    answer = await _ask_part(part, prober, left_s)
                    if answer is not None:
                        return answer
                return None
            return await self._first(limit_s)
        finally:
            # Not of one alone: a command may cost as much as the start of the service.
            self.pause_s = max(prober.pause_s for _, prober in self._parts)

    async def _first(self, limit_s: float) -> ProbeAnswer | None:
        """None as soon as one part holds, whatever the others still wait for; else what is wrong."""
        asking = [
            asyncio.create_task(_ask_part(part, prober, limit_s)) for part, prober in self._parts
        ]
        try:
            for asked in asyncio.as_completed(asking):
                if await asked is None:
                    return None
            return _of_all([each.result() for each in asking])
        finally:
            for each in asking:
                each.cancel()
            # Each ends its connection or its command.
            await asyncio.gather(*asking, return_exceptions=True)

    def close(self) -> None:
        for _, prober in self._parts:
            prober.close()


async def _ask_part(part: ReadinessProbe, prober: _Prober, limit_s: float) -> ProbeAnswer | None:
    answer = await prober.ask(min(limit_s, part.attempt_s))
    if answer is None or part.parts:
        return answer
    return structs.replace(answer, text=f"{part.describe()}: {answer.text}")


def _of_all(bad: Sequence[ProbeAnswer | None]) -> ProbeAnswer:
    """All that is wrong, as telling as the best of it."""
    answers = [answer for answer in bad if answer is not None]
    return ProbeAnswer(
        text="; ".join(answer.text for answer in answers),
        telling=max(answer.telling for answer in answers),
        cut=all(answer.cut for answer in answers),
    )


class _NetworkProber(_Prober):
    """HTTP, TCP and unix sockets. These are opened directly, so proxy variables have no effect."""

    def __init__(self, probe: ReadinessProbe, context: ProbeContext) -> None:
        self._probe = probe
        self.pause_s = _FIRST_PAUSE_S
        try:
            self._authorization = probe.authorization_value(context.environment)
        except ValueError as error:
            hint = "export it, or pass it on to this step"
            raise UsageError(f"ready: {error}", hint=hint) from error

    async def ask(self, limit_s: float) -> ProbeAnswer | None:
        # A server needs minutes to start: thirty requests a second would only slow it down.
        self.pause_s = min(self.pause_s * 1.5, _LONGEST_PAUSE_S)
        answer = await self._attempt_within(limit_s)
        if answer is None:
            return None
        return structs.replace(answer, text=self._without_secret(answer.text))

    async def _attempt_within(self, limit_s: float) -> ProbeAnswer | None:
        try:
            async with asyncio.timeout(limit_s):
                problem = await self._attempt()
        except TimeoutError:
            return ProbeAnswer(
                text=f"no answer within {limit_s:.3g} s",
                telling=Telling.SILENT,
                cut=limit_s < self._probe.attempt_s,
            )
        except ConnectionRefusedError:
            return ProbeAnswer(text=_REFUSED, telling=Telling.ABSENT)
        except OSError as error:
            return ProbeAnswer(text=f"no answer: {error}", telling=Telling.ABSENT)
        except EOFError:
            problem = "the connection was closed in the middle of the answer"
        except ValueError as error:
            problem = str(error)
        return None if problem is None else ProbeAnswer(text=problem)

    async def _attempt(self) -> str | None:
        connection = await http_answer.connect(self._probe)
        try:
            if self._probe.scheme is not Scheme.HTTP:
                return None
            return await http_answer.ask(self._probe, connection, self._authorization)
        finally:
            # Not close(), which would wait for a server that reads no more.
            connection[1].transport.abort()

    def _without_secret(self, answer: str) -> str:
        """Without what was sent: a server may repeat it in its answer."""
        if self._authorization is None:
            return answer
        # The token alone too: a server may repeat it without `Bearer`.
        token = self._authorization.rpartition(" ")[2]
        for secret in (self._authorization, token):
            answer = answer.replace(secret, "***")
        return answer


_LONGEST_EXEC_PAUSE_S = 1.0
_OUTPUT_BYTES = 16 * 1024
_LONGEST_SHOWN = 160
# After SIGKILL; a command that waits inside the kernel must not hold up the news of a death.
_KILL_S = 0.2
# The kernel reports a change at once; this is for what it cannot report, as on a network file system.
_LONGEST_REST_S = 0.5
# Errors of execve(2) that another attempt will not mend. Others pass, such as too many processes.
_CANNOT_EVER_RUN = frozenset(
    {errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR}
)


class _WatchedProber(_Prober):
    """Rests until a file has changed."""

    def __init__(self, path: Path) -> None:
        self._changed = asyncio.Event()
        self._watch = FileWatch(path, self._changed.set)

    async def rest(self, longest_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(longest_s, _LONGEST_REST_S)):
                await self._changed.wait()

    def close(self) -> None:
        self._watch.close()


class _LogProber(_WatchedProber):
    """Holds once the log has matched, and from then on."""

    def __init__(self, probe: ReadinessProbe, context: ProbeContext) -> None:
        if context.log is None:
            message = f"ready: {probe.describe()} needs a log to look in"
            raise UsageError(message, hint="name it with --log FILE")
        super().__init__(context.log)
        self._path = context.log
        self._pattern = probe.pattern
        self._file = GrowingFile(context.log)
        self._file.offset = context.log_from
        self._search = LogSearch(probe.pattern)

    async def ask(self, limit_s: float) -> ProbeAnswer | None:
        deadline = clock.now() + limit_s
        # From now on a change counts: before the file is read, so that none is missed.
        self._changed.clear()
        while self._read_on():
            # A long log must not delay the news of a death.
            await asyncio.sleep(0)
            if self._search.matched:
                break
            if clock.now() > deadline:
                # There is more to read, and no change of the file will report it.
                self._changed.set()
                break
        if self._search.matched:
            return None
        if self._file.problem:
            text = f"cannot read {self._path}: {self._file.problem}"
            return ProbeAnswer(text=text, telling=Telling.ABSENT)
        last = self._search.last_line
        state = f"its last line is: {_cut(last)}" if last else "nothing was written yet"
        return ProbeAnswer(text=f"no line of {self._path} matches /{self._pattern}/; {state}")

    def close(self) -> None:
        super().close()
        self._file.close()

    def _read_on(self) -> bool:
        """Whether there may be more."""
        piece = self._file.read(TURN_BYTES)
        if self._file.is_restarted:
            self._file.is_restarted = False
            self._search.restart()
        if piece:
            self._search.feed(piece)
        return len(piece) == TURN_BYTES


class _FileProber(_WatchedProber):
    """Holds while the file exists."""

    def __init__(self, probe: ReadinessProbe) -> None:
        self._path = probe.file or Path()
        super().__init__(self._path)

    async def ask(self, limit_s: float) -> ProbeAnswer | None:  # noqa: ARG002 - takes no time
        self._changed.clear()
        try:
            os.stat(self._path)  # noqa: PTH116 - exists() would hide why it cannot be read
        except OSError as error:
            text = f"{self._path}: {(error.strerror or 'cannot be read').lower()}"
            return ProbeAnswer(text=text, telling=Telling.ABSENT)
        return None


class _ExecProber(_Prober):
    """Holds when the command exits with 0. Each run is killed when its time is over."""

    def __init__(self, probe: ReadinessProbe, context: ProbeContext) -> None:
        if context.spawn is None:
            message = f"ready: {probe.describe()} cannot be run here"
            raise UsageError(message, hint="use http, tcp, log or file")
        self._words = probe.words
        self._attempt_s = probe.attempt_s
        self._spawn = context.spawn

    async def ask(self, limit_s: float) -> ProbeAnswer | None:
        # A file and no pipe: a command that writes much never blocks.
        with os.fdopen(os.memfd_create("output"), "rb") as output:
            try:
                child = self._spawn(self._words, output.fileno())
            except OSError as error:
                message = f"cannot run {self._words[0]}: {error.strerror}"
                if error.errno in _CANNOT_EVER_RUN:
                    hint = "check the path and its x bit; no shell runs it"
                    raise UsageError(f"ready: {message}", hint=hint) from error
                return ProbeAnswer(text=message, telling=Telling.ABSENT)
            problem = await self._run(child, limit_s)
            if problem is None:
                return None
            text = f"{self._words[0]} {problem.text}{_last_line(output.fileno())}"
            return structs.replace(problem, text=text)

    async def _run(self, child: "Child", limit_s: float) -> ProbeAnswer | None:
        """How the run failed; None if it ended with 0."""
        began = clock.now()
        in_time = False
        try:
            async with asyncio.timeout(limit_s):
                with end_awaited(child.pidfd) as ended:
                    await ended
            in_time = True
        except TimeoutError:
            pass
        finally:
            code = _reap(child)
            # At most half the time goes into probing: a command may be an interpreter that costs as
            # much CPU as the start of the service.
            took_s = clock.now() - began
            self.pause_s = max(_LONGEST_PAUSE_S, min(took_s, _LONGEST_EXEC_PAUSE_S))
        if not in_time:
            return ProbeAnswer(
                text=f"did not end within {limit_s:.3g} s",
                telling=Telling.SILENT,
                cut=limit_s < self._attempt_s,
            )
        if code == 0:
            return None
        end = "an unknown exit code" if code is None else describe_exit(code)
        return ProbeAnswer(text=f"ended with {end}")


def _reap(child: "Child") -> int | None:
    """How it ended; it is killed first if it has not. None if even that takes too long."""
    try:
        if not has_ended(child.pidfd):
            signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
            if not has_ended(child.pidfd, _KILL_S):
                return None
        return child.wait()
    except ProcessLookupError:
        return child.wait()
    finally:
        child.close()


def _last_line(output: int) -> str:
    """The last line that was written to this file, after a colon; nothing if there is none."""
    size = os.fstat(output).st_size
    end = os.pread(output, _OUTPUT_BYTES, max(0, size - _OUTPUT_BYTES))
    end = without_keys(end)
    for line in reversed(end.decode(errors="replace").splitlines()):
        if line.strip():
            return f": {_cut(line.strip())}"
    return ""


def _cut(text: str) -> str:
    plain = "".join(each if each.isprintable() else " " for each in text)
    return shortened_words(plain, _LONGEST_SHOWN)
