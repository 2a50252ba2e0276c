# SPDX-License-Identifier: Apache-2.0
"""Hazards, imports and paths in words for a person. Pure."""

import os
from typing import Final

from ci_doctor.imports.analyse.harm import Harm, HarmKind
from ci_doctor.imports.analyse.hazard import Hazard, HazardKind, Import
from ci_doctor.imports.record.events import Site

_WHAT: Final = {
    HazardKind.REPLACED: "{0} replaces itself in sys.modules",
    HazardKind.CYCLE: "{all} import each other",
    HazardKind.SUBMODULE: "{0} imports its submodule {last}",
    HazardKind.FAILED: "the import of {0} fails",
    HazardKind.RELOAD: "{0} is reloaded",
}
_CHAIN_SHOWN = 4
_NOT_JUDGED: Final = {
    "greenlets": "several greenlets import in one thread, and only threads are told apart",
    "free threading": "its interpreter runs without the GIL, for which no check exists yet",
}


def not_judged(why: str) -> str:
    """Why nothing is known of a process, from the word in its trace."""
    return _NOT_JUDGED.get(why, f"{why} switches stacks within a thread")


def what(hazard: Hazard) -> str:
    """What is special about its modules."""
    first = hazard.modules[0]
    *others, last = hazard.modules
    together = last
    if others:
        together = f"{', '.join(others)} and {last}"
    return _WHAT[hazard.kind].format(first, all=together, last=last)


def threads(hazard: Hazard) -> str:
    """Which threads import them."""
    first = hazard.first
    second = hazard.second
    if hazard.kind is HazardKind.RELOAD:
        return f"by thread {first.thread}, and thread {second.thread} has imported it"
    if hazard.kind is HazardKind.REPLACED or first.name == second.name:
        return f"and threads {first.thread} and {second.thread} import it"
    one = f"thread {first.thread} imports {first.name}"
    other = f"thread {second.thread} {second.name}"
    return f"and {one}, {other}"


def describe_import(side: Import) -> str:
    """One side of a hazard, with the chain of modules that led to it, innermost first."""
    statement = f"thread {side.thread} imports {side.name}"
    if side.names:
        statement += f" ({', '.join(side.names)})"
    lines = [statement]
    if side.thread_started_at is not None:
        lines.append(f"started at {place(side.thread_started_at)}")
    outer = [site for site in side.chain if site != side.site]
    hidden = len(outer) - _CHAIN_SHOWN
    if hidden > 0:
        lines.append(f"… {hidden} more")
    # The outermost ones are shown: they are in the program's own code, where it can be changed.
    outermost = reversed(outer[:_CHAIN_SHOWN])
    lines.extend(f"while {site.module} runs {place(site)}" for site in outermost)
    return "\n".join(lines)


def describe_harm(harm: Harm) -> str:
    """What went wrong, in a sentence without its full stop."""
    where = ""
    if harm.site is not None:
        where = f" at {place(harm.site)}"
    match harm.kind:
        case HarmKind.MISSING_NAME if harm.attribute == "*":
            return f"thread {harm.thread} took `*` from the incomplete {harm.name}{where}"
        case HarmKind.MISSING_NAME:
            return f"thread {harm.thread} found no {harm.attribute} in {harm.name}{where}"
        case HarmKind.DEADLOCK_ERROR:
            return f"the import of {harm.name} in thread {harm.thread} ended with _DeadlockError"
        case HarmKind.UNFINISHED_MODULE:
            return (
                f"thread {harm.thread} received the unfinished module {harm.name} "
                "instead of the error of its import"
            )


def place(site: Site) -> str:
    """`file:line`."""
    return f"{shown(site.file)}:{site.line}"


def shown(path: str) -> str:
    """`path` as a person types it: relative, if it is below the working directory."""
    if not os.path.isabs(path):  # noqa: PTH117
        return path
    relative = os.path.relpath(path)
    if relative.startswith(".."):
        return path
    return relative
