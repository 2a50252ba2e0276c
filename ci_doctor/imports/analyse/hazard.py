# SPDX-License-Identifier: Apache-2.0
"""What a hazard of imports is: two threads, two imports, and how near they came to each other. Pure."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.imports.record.events import Site
from ci_doctor.imports.report.remedy import Remedy


class HazardKind(StrEnum):
    """Why two threads' imports of it can go wrong. All others are made safe by CPython's module locks.

    REPLACED: the module puts another object into `sys.modules` while its code runs; who waits gets the discarded one.
    CYCLE: each thread holds a module that the other one needs. SUBMODULE: so do a package, which imports its submodule, and
    the submodule, which needs its package first. FAILED: the import fails, and who waits gets the unfinished module.
    """

    REPLACED = "self-replacing package"
    CYCLE = "import cycle"
    SUBMODULE = "submodule order"
    FAILED = "failed import"


class Closeness(StrEnum):
    """FIRED: it happened in this run. NEAR: the two imports overlapped. LATENT: nothing orders the two."""

    FIRED = "fired"
    NEAR = "near"
    LATENT = "latent"


class Import(Struct, frozen=True, kw_only=True):
    """One thread's import of module `name` at `site`.

    chain: from the outermost statement to `site`, each of which loads the module in which the next one stands.
    began_ns, ended_ns: when it was asked for and when it was there; `ended_ns` is None where that is not known.
    names: the from-list. thread_started_at: where the thread was started, None for the first thread.
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

    first: the one that loads the module; second: the one that is harmed. margin_ns: from the end of the first's loading to
    the second's ask; negative where they overlapped, None where the end is not known. pair: the two module locks, the
    first's and the second's; None where there is one module only. detail: how close it was, in a sentence.
    """

    kind: HazardKind
    closeness: Closeness
    pid: int
    modules: tuple[str, ...]
    first: Import
    second: Import
    margin_ns: int | None
    pair: tuple[str, str] | None
    remedy: Remedy
    detail: str
