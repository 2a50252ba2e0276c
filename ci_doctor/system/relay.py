# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs one command beside us as if it stood in our place, and keeps its output.

Signals that arrive here are handed on in order, unless the whole group has got them.
A signal to our whole process group (Ctrl-C, an agent, timeout(1)) reaches the command without us; a
signal to us alone does not. Nothing in a signal tells which of the two it was. So another process
in the group holds back all signals, and says if asked which ones have arrived there. The kernel
serves the newest members of a group first: when a signal is here, it is there already.
"""

import contextlib
import errno
import os
import select
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import FrameType
from typing import Any, Final, NoReturn, Protocol, Self

from msgspec import Struct

from ci_doctor.system import clock
from ci_doctor.system.processes import program
from ci_doctor.system.relay_output import STDERR, STDOUT, Channel, CommandLog, Pump, open_channels

# What a person, a shell or an agent sends to a job. SIGTTIN and SIGTTOU go to whole groups always.
RELAYED: Final = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGALRM,
        signal.SIGABRT,
        signal.SIGWINCH,
        signal.SIGTSTP,
        signal.SIGCONT,
    }
)
# Requests to end.
ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_NOTED: Final = RELAYED | {signal.SIGCHLD}
# Python ignores these at its start, and an ignored signal stays ignored across exec.
IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
WAKE_UP: Final = 0  # no signal has this number


class Arrivals:
    """The signals that arrive while the context lasts. They are blocked until `open`.

    One that was ignored before stays ignored.
    """

    def __init__(self) -> None:
        self._earlier: dict[signal.Signals, Any] = {}
        self._mask: Iterable[int] = ()
        self._reader = -1
        self._writer = -1
        self._former_wakeup = -1

    def __enter__(self) -> Self:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _NOTED)
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        # The interpreter writes the number of each signal there (signal.set_wakeup_fd).
        self._former_wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in _NOTED:
            handler = signal.getsignal(number)
            if handler is signal.SIG_IGN and number is not signal.SIGCHLD:
                continue
            self._earlier[number] = handler
            signal.signal(number, _note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._earlier.items():
            # None stands for a handler that was not installed from Python (signal.getsignal).
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._former_wakeup)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def open(self) -> None:
        """Let the signals through that were held back."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def restore_for_command(self) -> None:
        """In the process that becomes the command: all signals as they were before us."""
        for number, handler in self._earlier.items():
            restored = signal.SIG_DFL
            if handler is signal.SIG_IGN:
                restored = signal.SIG_IGN
            signal.signal(number, restored)
        for number in IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        self.open()

    def wake_up(self) -> None:
        """Let `wait` return WAKE_UP; any thread may call it."""
        os.write(self._writer, bytes([WAKE_UP]))

    def wait(self, limit_s: float | None = None) -> tuple[int, ...]:
        """The numbers that have arrived, each once, SIGCHLD last; none after `limit_s` seconds."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        limit_ms = None if limit_s is None else max(0.0, limit_s) * 1000
        if not poll.poll(limit_ms):
            return ()
        numbers = dict.fromkeys(os.read(self._reader, 4096))
        # A signal that ended the command came before its end.
        return tuple(sorted(numbers, key=lambda number: number == signal.SIGCHLD))


def _note(_number: int, _frame: FrameType | None) -> None:
    """A handler of Python's own is needed for the number to be written."""


_FAREWELL: Final = b"."
_QUESTION: Final = b"?"
_LAST: Final = 0  # ends an answer; no signal has this number
# It answers in microseconds. After this long, somebody may have stopped it.
_PATIENCE_MS: Final = 100


class GroupProbe:
    """Lives while the context lasts, in our process group.

    If we are killed, it kills the process `command` by the same signal, as the kernel would have
    done if that stood in our place.
    """

    def __init__(self, command: int, signals: AbstractSet[signal.Signals]) -> None:
        self._command = command
        self._signals = signals
        self._arrived: set[int] = set()
        self._pid = -1
        self._questions = -1
        self._answers = -1

    def __enter__(self) -> Self:
        questions, self._questions = os.pipe()
        self._answers, answers = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _serve(questions, answers, self._command, self._signals)
        os.close(questions)
        os.close(answers)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # somebody has killed it
            os.write(self._questions, _FAREWELL)
        os.close(self._questions)
        os.close(self._answers)
        # Stopped with the whole group, it would not hear us.
        os.kill(self._pid, signal.SIGCONT)
        os.waitpid(self._pid, 0)

    def has_got(self, number: int) -> bool:
        """Whether the signal `number` went to the whole group, since this was asked last."""
        self._ask()
        if number in self._arrived:
            self._arrived.remove(number)
            return True
        return False

    def _ask(self) -> None:
        try:
            os.write(self._questions, _QUESTION)
        except OSError:  # somebody has killed it
            return
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        while not poll.poll(_PATIENCE_MS):
            # Somebody may have stopped it, or it is only late. It holds back this signal too.
            os.kill(self._pid, signal.SIGCONT)
        # One write of a few bytes comes whole (pipe(7)); nothing comes of one that was killed.
        self._arrived.update(os.read(self._answers, 512))


def _serve(
    questions: int, answers: int, command: int, signals: AbstractSet[signal.Signals]
) -> NoReturn:
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        # Unlike a pid, it names no other process later.
        pidfd = os.pidfd_open(command)
        _close_all_but(questions, answers, pidfd)
        while (word := os.read(questions, 1)) == _QUESTION:
            os.write(answers, bytes((*_pending(signals), _LAST)))
        if word != _FAREWELL:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    finally:
        # Nothing of ours may be done twice: no handler at exit, no buffered text.
        os._exit(0)


def _pending(signals: AbstractSet[signal.Signals]) -> list[int]:
    """Those of `signals` that are held back here; they are forgotten."""
    numbers = []
    while (info := signal.sigtimedwait(signals, 0)) is not None:
        numbers.append(info.si_signo)
    return numbers


def _close_all_but(*kept: int) -> None:
    """Nobody may wait for the end of a stream because this process has it open."""
    start = 0
    for descriptor in sorted(kept):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))


class CommandEnd(Struct, frozen=True, kw_only=True):
    """The end of a command.

    returncode: its exit code, or the negative signal number. request: the first signal by which
    somebody requested its end. reader_left: nobody read one of our streams any more. problems:
    sentences on output that could not be handed on or kept.
    """

    returncode: int
    request: int | None = None
    reader_left: bool = False
    problems: tuple[str, ...] = ()

    @property
    def signal(self) -> int | None:
        """The signal that ended it; None if it ended by itself."""
        return -self.returncode if self.returncode < 0 else None

    @property
    def shell_status(self) -> int:
        """The status as a shell has it: 128+n for the signal n."""
        if self.signal is not None:
            return 128 + self.signal
        return self.returncode


class CommandRefusedError(OSError):
    """The system does not run the command (execve(2)); `errno` says why."""


def start(
    command: tuple[str, ...],
    environ: Mapping[str, str],
    channels: Sequence[Channel],
    prepare: Callable[[], None],
) -> int:
    """The pid of `command`, which runs. `prepare` is called in the new process before.

    Raises CommandRefusedError if the command cannot be run, and OSError if no process is left for
    it.
    """
    if not command[0]:
        raise CommandRefusedError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    inlets = {number: channel.inlet for channel in channels for number in channel.numbers}
    words = [os.fsencode(word) for word in command]
    variables = {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}
    pid, report = program.start(
        program.Program(words, variables),
        [inlets.get(number) for number in range(3)],
        prepare,
    )
    failure = program.read_report(report)
    if failure is not None:
        os.waitpid(pid, 0)
        _, number = failure
        raise CommandRefusedError(number, os.strerror(number), command[0])
    return pid


def hand_over(channel: Channel) -> None:
    """From now on cat passes the output of `channel` on, until nobody writes any more."""
    actions = [
        (os.POSIX_SPAWN_DUP2, channel.source, 0),
        (os.POSIX_SPAWN_DUP2, channel.target, STDOUT),
        # It would complain of a terminal's end (EIO).
        (os.POSIX_SPAWN_OPEN, STDERR, os.devnull, os.O_WRONLY, 0),
    ]
    # Without cat they get SIGPIPE, as from any reader that leaves.
    with contextlib.suppress(OSError):
        os.posix_spawnp(
            "cat", ["cat"], os.environ, file_actions=actions, setsigdef=[signal.SIGPIPE]
        )


class Companion(Protocol):
    """Watches the command and all below it from our process, their subreaper by then."""

    def begin(self, command: int) -> None:
        """The command runs with that pid; all our other children are none of it."""

    def child_ended(self) -> None:
        """A child of ours has ended; the command's end is not the companion's to take."""

    def finish(self, request: int | None) -> None:
        """The command has ended; `request` as in CommandEnd. What it wrote is not passed on yet."""


# What a shell has started beside the command (`> >(tee log)`) ends a moment after it.
_LAST_WORDS_S: Final = 0.2


def relay(
    command: tuple[str, ...],
    environ: Mapping[str, str],
    log: CommandLog,
    companion: Companion | None = None,
) -> CommandEnd:
    """Run `command` to its end, with our stdin; its output goes to our streams and to `log`.

    It is in our process group. What it leaves behind lives on, unless `companion` ends it. Raises
    CommandRefusedError if it cannot be run, and OSError if the machine has no descriptor or process
    left. Of the main thread alone, and before other threads are started.
    """
    channels = open_channels()
    # The signals are held back until all of this stands: none is lost, none comes twice.
    with Arrivals() as arrivals:
        pid = start(command, environ, channels, arrivals.restore_for_command)
        with GroupProbe(pid, RELAYED) as probe:
            if companion is not None:
                companion.begin(pid)
            arrivals.open()
            return _Relay(pid, channels, log, arrivals, probe, companion).run()


class _Relay:
    def __init__(
        self,
        pid: int,
        channels: Sequence[Channel],
        log: CommandLog,
        arrivals: Arrivals,
        probe: GroupProbe,
        companion: Companion | None = None,
    ) -> None:
        self._pid = pid
        self._companion = companion
        self._log = log
        self._arrivals = arrivals
        self._probe = probe
        self._returncode: int | None = None
        self._request: int | None = None
        stopper, self._stop = os.pipe()
        self._pumps: list[Pump] = []
        for channel in channels:
            pump = Pump(channel, stopper, log.add, arrivals.wake_up)
            self._pumps.append(pump)

    def run(self) -> CommandEnd:
        for pump in self._pumps:
            pump.start()
        while self._returncode is None:
            for number in self._arrivals.wait():
                self._take(number)
        if self._companion is not None:
            self._companion.finish(self._request)
        self._drain()
        self._log.flush()
        return CommandEnd(
            returncode=self._returncode,
            request=self._request,
            reader_left=any(pump.reader_left for pump in self._pumps),
            problems=self._problems(),
        )

    def _take(self, number: int) -> None:
        """Hand the signal `number` on, or see what has become of the command."""
        if number == WAKE_UP:
            return
        if number == signal.SIGCHLD:
            self._look()
            if self._companion is not None:
                self._companion.child_ended()
            return
        if number in ENDING and self._request is None:
            self._request = number
        # Twice does no harm, and a probe that was stopped would have to be continued to answer.
        went_to_all = number != signal.SIGCONT and self._probe.has_got(number)
        if number == signal.SIGWINCH:
            went_to_all = self._resize(went_to_all=went_to_all)
        if not went_to_all:
            os.kill(self._pid, number)

    def _resize(self, *, went_to_all: bool) -> bool:
        """Hand the size of our terminal on; whether nothing else is to be done."""
        resized = [pump.channel.resize() for pump in self._pumps]
        if went_to_all and any(resized):
            # The first one came before the command's terminal had the new size.
            os.killpg(os.getpgrp(), signal.SIGWINCH)
        return went_to_all

    def _look(self) -> None:
        """Notice the command's end, or that it has been stopped: then we stop too."""
        options = os.WEXITED | os.WSTOPPED | os.WNOHANG
        state = os.waitid(os.P_PID, self._pid, options)
        if state is None:
            return
        if state.si_code == os.CLD_STOPPED:
            # Stop as the command has, until somebody continues us.
            number = state.si_status
            earlier = None
            if number != signal.SIGSTOP:
                earlier = signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            if earlier is not None:
                signal.signal(number, earlier)
        elif state.si_code == os.CLD_EXITED:
            self._returncode = state.si_status
        else:
            self._returncode = -state.si_status

    def _drain(self) -> None:
        """Pass on what the command has written, and leave the channels to those who still write."""
        # Not before: a terminal that nobody has open for a moment is at its end for us.
        for pump in self._pumps:
            pump.channel.close_inlet()
        # Who looks for a cause needs all of it; after a success nobody does.
        if self._returncode:
            self._wait_for_pumps(_LAST_WORDS_S)
        os.close(self._stop)
        if not self._wait_for_pumps(None):
            return
        for pump in self._pumps:
            if not pump.is_exhausted:
                hand_over(pump.channel)

    def _wait_for_pumps(self, limit_s: float | None) -> bool:
        """Wait until all have ended; False if not in time, or if somebody requests our end."""
        deadline = None if limit_s is None else clock.now() + limit_s
        while any(not pump.is_over for pump in self._pumps):
            left_s = None if deadline is None else deadline - clock.now()
            if left_s is not None and left_s <= 0:
                return False
            for number in self._arrivals.wait(left_s):
                if number in ENDING:
                    self._request = number
                    return False
        return True

    def _problems(self) -> tuple[str, ...]:
        problems = []
        for pump in self._pumps:
            if pump.problem is not None and not pump.reader_left:
                name = "stdout" if pump.channel.target == 1 else "stderr"
                problems.append(f"{name} cannot be written: {pump.problem.strerror}")
        if self._log.problem is not None:
            problems.append(f"the log is not whole: {self._log.problem}")
        return tuple(problems)
