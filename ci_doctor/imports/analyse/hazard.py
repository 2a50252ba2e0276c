# SPDX-License-Identifier: Apache-2.0
"""What an import hazard is: two threads, two imports, and how close they came. Pure."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.imports.record.events import Site


class HazardKind(StrEnum):
    """Why two threads can break an import. CPython's module locks make every other case safe.

    REPLACED: the module puts another object into `sys.modules` while its code runs; a thread that
    waits for it receives the discarded object. CYCLE: each thread holds a module that the other one
    needs. SUBMODULE: the same for a package that imports its submodule, and the submodule, which
    needs its package first. FAILED: the import fails, and a thread that waits for it receives the
    incomplete module. RELOAD: `importlib.reload` executes the module again, which no lock keeps
    from a thread that uses it.
    """

    REPLACED = "self-replacing package"
    CYCLE = "import cycle"
    SUBMODULE = "submodule order"
    FAILED = "failed import"
    RELOAD = "reload"


class Closeness(StrEnum):
    """How close two imports came in the recorded run.

    FIRED: it did harm. HANDED_OUT: a thread received a wrong module, and missed nothing in it.
    NEAR: the imports overlapped. LATENT: nothing orders them.
    """

    FIRED = "fired"
    HANDED_OUT = "handed out"
    NEAR = "near"
    LATENT = "latent"


class Import(Struct, frozen=True, kw_only=True):
    """One thread's import of module `name` at `site`.

    chain: the statements from the outermost one to `site`; each one loads the module that contains
    the next one. began_ns: when the thread requested the module. ended_ns: when the module was
    loaded; None if that is not known. names: the from-list. thread_started_at: where the thread was
    started; None for the first thread.
    """

    thread: str
    name: str
    site: Site
    chain: tuple[Site, ...]
    began_ns: int
    ended_ns: int | None
    names: tuple[str, ...] = ()
    thread_started_at: Site | None = None


class Hazard(Struct, frozen=True, kw_only=True):
    """Two imports of process `pid` that must not meet.

    first: the import that loads the module. second: the import that fails if they meet. margin_ns:
    the time from the end of the first's loading to the second's request; negative if they
    overlapped, None if the end is not known. pair: the modules whose locks the first and the second
    hold; None if only one module is involved. detail: how close it was, in a sentence.
    """

    kind: HazardKind
    closeness: Closeness
    pid: int
    modules: tuple[str, ...]
    first: Import
    second: Import
    margin_ns: int | None
    pair: tuple[str, str] | None
    detail: str


_RANKS = {closeness: rank for rank, closeness in enumerate(Closeness)}


def badness(hazard: Hazard) -> tuple[int, bool, int]:
    """The sort key of "worst first", in the order of `Closeness`; then by the smallest margin.

    An unknown margin comes after the known ones.
    """
    distance_ns = abs(hazard.margin_ns or 0)
    return _RANKS[hazard.closeness], hazard.margin_ns is None, distance_ns
