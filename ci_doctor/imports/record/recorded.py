# SPDX-License-Identifier: Apache-2.0
"""What a recording holds: the run of a command, its Python processes, their threads. Pure."""

import signal as signals

from msgspec import Struct

from ci_doctor.imports.record.events import ImportEvent, Order, Site


class RecordedThread(Struct, frozen=True, kw_only=True):
    """One thread, by its number; thread `parent` started it at `started_at`.

    Both are None for the first thread, and if they are not known.
    """

    number: int
    name: str
    parent: int | None = None
    started_at: Site | None = None


class Escape(Struct, frozen=True, kw_only=True):
    """At `t`, thread `n` started a Python that does not record.

    why: "-I", "-E", "clean environment" and the like.
    """

    t: int
    n: int
    argv: tuple[str, ...]
    why: str


class RecordedProcess(Struct, frozen=True, kw_only=True):
    """One process. `events` are in the order of `t`, those of one thread in the order of `k`.

    orders: in the order in which they were written. threading: `threading` was loaded before the
    recorder. absent: by module, the names that it never had, even once it was complete. unjudged:
    what the recorder cannot follow in this process, such as greenlets. loaders: the module of the loader,
    by module, where it is none of importlib's for files. truncated: the last line was
    cut off. armed: the recorder watched imports; False if it
    failed before it could. exited_ns: None if the process ended without notice (kill -9, os._exit).
    """

    pid: int
    parent_pid: int
    executable: str
    argv: tuple[str, ...]
    version: str
    forked: bool
    threading: bool
    started_ns: int
    exited_ns: int | None = None
    threads: dict[int, RecordedThread]
    events: tuple[ImportEvent, ...] = ()
    orders: tuple[Order, ...] = ()
    escapes: tuple[Escape, ...] = ()
    absent: frozenset[tuple[str, str]] = frozenset()
    unjudged: tuple[str, ...] = ()
    loaders: dict[str, str] = {}
    truncated: bool = False
    armed: bool = True


class RecordedRun(Struct, frozen=True, kw_only=True):
    """A run that has ended, and its recorded Python processes in the order of their starts.

    exit_code: None if a signal ended the command. signal: the name of that signal. Both are None if
    the status is not known. unreadable: the name of each trace that cannot be read, and the reason.
    outlived: names of processes that outlived the command and were stopped. timed_out: the time
    limit ended the command. received: the signal to ci-doctor itself that ended the command.
    """

    processes: tuple[RecordedProcess, ...]
    exit_code: int | None
    signal: str | None
    duration_s: float
    unreadable: tuple[str, ...] = ()
    outlived: tuple[str, ...] = ()
    timed_out: bool = False
    received: signals.Signals | None = None

    @property
    def command_failed(self) -> bool:
        """Whether the command failed by itself; one that the time limit ended did not."""
        return not self.timed_out and self.exit_code != 0

    def describe_end(self) -> str:
        """How the command ended, for a person: `exit code 1`, `SIGSEGV`."""
        if self.signal is not None:
            return self.signal
        if self.exit_code is not None:
            return f"exit code {self.exit_code}"
        return "an unknown status"
