# SPDX-License-Identifier: Apache-2.0
"""What happens in a recorded process, one value for each record of its trace.

Times are `time.monotonic_ns`, comparable between the processes of one machine. `n` numbers the threads of a process (0 is
the first, none is used twice), `k` the events of a thread from 1. Pure.
"""

from typing import Literal

from msgspec import Struct

How = Literal["statement", "importlib"]
Status = Literal["loaded", "failed", "missing", "found"]
Outcome = Literal["same", "replaced", "removed"]


class Site(Struct, frozen=True, kw_only=True):
    """A line of code. `module` is the `__name__` there; the script of `-m a.b` has `__main__:a.b`."""

    file: str
    line: int
    module: str


class RecordedThread(Struct, frozen=True, kw_only=True):
    """One thread, by its number; `parent` started it at `started_at`. Both are None for the first, and where not known."""

    number: int
    name: str
    parent: int | None = None
    started_at: Site | None = None


class ImportEvent(Struct, frozen=True, kw_only=True):
    """Event `k` of thread `n`, at `t` nanoseconds."""

    t: int
    n: int
    k: int


class Ask(ImportEvent, frozen=True, kw_only=True):
    """The thread asks for module `name`, from `site`.

    how: "statement" where CPython's C code hands the module out, "importlib" where the import system's Python half does.
    names: the from-list. within: the innermost module that the thread is loading then. It is written once per
    (n, within, name, how), so a later ask of the same kind is not seen.
    """

    name: str
    how: How
    site: Site
    names: tuple[str, ...] = ()
    within: str | None = None


class Begin(ImportEvent, frozen=True, kw_only=True):
    """`name` is not ready: the thread goes to load it, or to wait for who does."""

    name: str
    within: str | None = None


class End(ImportEvent, frozen=True, kw_only=True):
    """The end of the thread's `Begin` of `name`.

    status: "loaded" (this thread executed it), "failed" (its code raised), "missing" (not found), "found" (another thread
    had loaded it). replaced: `sys.modules` then held another object than the one that was created.
    """

    name: str
    status: Status
    replaced: bool


class Wait(ImportEvent, frozen=True, kw_only=True):
    """The thread waited `waited_ns` for `name`, which thread `owner` was loading; `t` is the time at the end.

    outcome: it was handed what `sys.modules` holds ("same"), the discarded object ("replaced"), or a module whose import
    has failed ("removed").
    """

    name: str
    owner: int | None
    waited_ns: int
    outcome: Outcome


class Deadlock(ImportEvent, frozen=True, kw_only=True):
    """CPython let the thread go on without the lock of `name`, held by `owner`; the thread holds the locks of `held`."""

    name: str
    owner: int | None
    held: tuple[str, ...]


class HeldImport(ImportEvent, frozen=True, kw_only=True):
    """The recorder held the thread at module `name`, at most `limit_ns`; `met`: another thread came."""

    name: str
    limit_ns: int
    met: bool


class Order(Struct, frozen=True, kw_only=True):
    """Before event `k` of thread `n`: the first `seen[m]` events of each other thread `m`. It holds until the next one."""

    n: int
    k: int
    seen: dict[int, int]


class Escape(Struct, frozen=True, kw_only=True):
    """At `t`, thread `n` started a Python that is not followed; `why`: "-I", "-E", "clean environment"."""

    t: int
    n: int
    argv: tuple[str, ...]
    why: str
