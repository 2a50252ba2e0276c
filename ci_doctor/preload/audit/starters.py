# SPDX-License-Identifier: Apache-2.0
"""Pure. The calls of the standard library, and of a few others, that start threads."""

from typing import Final

from msgspec import Struct


class Starter(Struct, frozen=True, kw_only=True):
    """A call that starts a thread, and the argument with the function that the thread runs.

    `from_object`: it is an argument of the call that made the object, not of this one.
    `of_library`: the thread runs code of the library alone. `pool`: several threads may run it.
    """

    position: int = 0
    keyword: str = ""
    from_object: bool = False
    of_library: bool = False
    pool: bool = False


_THREAD = Starter(position=1, keyword="target", from_object=True)
_SUBMIT = Starter(position=0, keyword="fn", pool=True)
_POOL = Starter(position=0, keyword="func", pool=True)
_OWN = Starter(of_library=True)

STARTERS: Final = {
    "threading.Thread.start": _THREAD,
    "threading.Timer.start": Starter(position=1, keyword="function", from_object=True),
    "_thread.start_new_thread": Starter(position=0, keyword="function"),
    "concurrent.futures.ThreadPoolExecutor.submit": _SUBMIT,
    "concurrent.futures.ThreadPoolExecutor.map": _SUBMIT,
    "multiprocessing.pool.ThreadPool.apply": _POOL,
    "multiprocessing.pool.ThreadPool.apply_async": _POOL,
    "multiprocessing.pool.ThreadPool.map": _POOL,
    "multiprocessing.pool.ThreadPool.map_async": _POOL,
    "multiprocessing.pool.ThreadPool.imap": _POOL,
    "multiprocessing.pool.ThreadPool.imap_unordered": _POOL,
    "multiprocessing.pool.ThreadPool.starmap": _POOL,
    "multiprocessing.pool.ThreadPool.starmap_async": _POOL,
    "asyncio.to_thread": Starter(position=0, keyword="func", pool=True),
    "anyio.to_thread.run_sync": Starter(position=0, keyword="func", pool=True),
    "starlette.concurrency.run_in_threadpool": Starter(position=0, keyword="func", pool=True),
    # These start threads of their own, to move work between processes.
    "concurrent.futures.ProcessPoolExecutor.submit": _OWN,
    "concurrent.futures.ProcessPoolExecutor.map": _OWN,
    "multiprocessing.Pool": _OWN,
    "multiprocessing.Queue.put": _OWN,
    "multiprocessing.JoinableQueue.put": _OWN,
    "multiprocessing.queues.Queue.put": _OWN,
    "logging.handlers.QueueListener.start": _OWN,
}
# `loop.run_in_executor(None, function)`: the name says enough, whatever the loop is.
RUN_IN_EXECUTOR: Final = Starter(position=1, keyword="func", pool=True)
JOINS: Final = frozenset(
    {
        "threading.Thread.join",
        "threading.Timer.join",
        "concurrent.futures.ThreadPoolExecutor.shutdown",
        "multiprocessing.pool.ThreadPool.join",
    }
)
# Leaving a `with` of these waits for their threads.
JOINED_BY_WITH: Final = frozenset({"concurrent.futures.ThreadPoolExecutor"})
# Methods that a subclass may call through the class, with the object as argument.
UNBOUND: Final = frozenset(
    {"threading.Thread.start", "threading.Timer.start", "threading.Thread.join"}
)
# These keep a function for a thread, or for a call that is followed; nobody else calls it.
KEEPERS: Final = frozenset(
    {
        "functools.partial",
        "threading.Thread",
        "threading.Thread.__init__",
        "threading.Timer",
        "threading.Timer.__init__",
    }
)

_SAME: Final = {
    "concurrent.futures.thread.": "concurrent.futures.",
    "concurrent.futures.process.": "concurrent.futures.",
    "concurrent.futures._base.": "concurrent.futures.",
    "torch.multiprocessing.": "multiprocessing.",
    "multiprocessing.get_context.": "multiprocessing.",
    "multiprocessing.pool.Pool": "multiprocessing.Pool",
    "multiprocessing.dummy.Process": "threading.Thread",
    "multiprocessing.dummy.Pool": "multiprocessing.pool.ThreadPool",
    "asyncio.threads.to_thread": "asyncio.to_thread",
    "thread.start_new_thread": "_thread.start_new_thread",
    "_thread.start_new.": "_thread.start_new_thread.",
    "threading._start_new_thread": "_thread.start_new_thread",
    "threading._start_joinable_thread": "_thread.start_new_thread",
    "fastapi.concurrency.run_in_threadpool": "starlette.concurrency.run_in_threadpool",
}


def usual_name(name: str) -> str:
    """The documented name of what may be reached by several."""
    for other, usual in _SAME.items():
        if name.startswith(other):
            return usual_name(usual + name[len(other) :])
    return name


def starter_of(name: str) -> Starter | None:
    """How calling the function of that dotted name starts a thread, or None."""
    usual = usual_name(name)
    if usual.endswith(".run_in_executor"):
        return RUN_IN_EXECUTOR
    return STARTERS.get(usual)


def shown_kind(name: str) -> str:
    """How a reader knows that way of starting threads."""
    usual = usual_name(name)
    if usual.endswith("run_in_executor"):
        return "run_in_executor"
    return usual.removesuffix(".start").removesuffix(".submit")
