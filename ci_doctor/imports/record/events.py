# SPDX-License-Identifier: Apache-2.0
"""What happens in a recorded process: one value for each record of its trace. Pure.

Times are `time.monotonic_ns`, comparable between the processes of one machine. `n` numbers the
threads of a process. The first thread is 0, and no number is used twice. `k` numbers the events of
one thread, from 1.
"""

from typing import Literal

from msgspec import Struct

How = Literal["statement", "importlib"]
LoadStatus = Literal["loaded", "failed", "missing", "found"]
WaitOutcome = Literal["same", "replaced", "removed"]


class Site(Struct, frozen=True, kw_only=True):
    """A line of code. `module` is the `__name__` there; a script of `-m a.b` has `__main__:a.b`."""

    file: str
    line: int
    module: str


class ImportEvent(Struct, frozen=True, kw_only=True):
    """Event `k` of thread `n`, at `t` nanoseconds."""

    t: int
    n: int
    k: int


class Ask(ImportEvent, frozen=True, kw_only=True):
    """The thread requests module `name` at `site`.

    how: "statement" if CPython's C code hands the module out, "importlib" if the Python half of the
    import system does. names: the from-list. within: the innermost module that the thread then is
    loading. The recorder writes one record per (n, within, name, how): later requests of the
    same kind are not recorded.
    """

    name: str
    how: How
    site: Site
    names: tuple[str, ...] = ()
    within: str | None = None


class Begin(ImportEvent, frozen=True, kw_only=True):
    """`name` is not loaded yet: the thread starts to load it, or to wait for another that does."""

    name: str
    within: str | None = None


class End(ImportEvent, frozen=True, kw_only=True):
    """The end of the thread's `Begin` of `name`.

    status: "loaded" (this thread executed the module), "failed" (its code raised), "missing" (no
    such module), "found" (another thread had loaded it). replaced: at the end `sys.modules` held
    another object than the one that the import system had created.
    """

    name: str
    status: LoadStatus
    replaced: bool


class Wait(ImportEvent, frozen=True, kw_only=True):
    """The thread waited `waited_ns` for `name`, which thread `owner` was loading; it ended at `t`.

    outcome: the thread received the object in `sys.modules` ("same"), the discarded object
    ("replaced"), or a module whose import has failed ("removed").
    """

    name: str
    owner: int | None
    waited_ns: int
    outcome: WaitOutcome


class Deadlock(ImportEvent, frozen=True, kw_only=True):
    """CPython let the thread continue without the lock of `name`, to avoid a deadlock.

    Thread `owner` held that lock; this thread held the locks of the modules `held`. raised: the
    import ended with importlib's `_DeadlockError`; otherwise the thread received the module as it
    was.
    """

    name: str
    owner: int | None
    held: tuple[str, ...]
    raised: bool = False


class Missing(ImportEvent, frozen=True, kw_only=True):
    """The thread read `attribute` of module `name`, which had no such name yet.

    The thread had been handed the incomplete module, or one that is no longer in `sys.modules`.
    `*` stands for the names of a `from m import *`.
    """

    name: str
    attribute: str
    site: Site


class Reload(ImportEvent, frozen=True, kw_only=True):
    """The thread begins to execute the loaded module `name` again, by `importlib.reload`."""

    name: str
    site: Site


class HeldImport(ImportEvent, frozen=True, kw_only=True):
    """The recorder delayed the thread at module `name` by at most `limit_ns`.

    met: another thread arrived during the delay.
    """

    name: str
    limit_ns: int
    met: bool


class Order(Struct, frozen=True, kw_only=True):
    """The vector clock of thread `n` from its event `k` on, until its next `Order`.

    The first `clock[m]` events of each other thread `m` came before.
    """

    n: int
    k: int
    clock: dict[int, int]
