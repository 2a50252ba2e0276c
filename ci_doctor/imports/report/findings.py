# SPDX-License-Identifier: Apache-2.0
"""The findings of a recording: each hazard with both imports, how close it was and its remedy. Pure."""

import os
from collections.abc import Iterable, Iterator
from typing import Final

from ci_doctor.imports.analyse.hazard import Hazard, HazardKind, Import
from ci_doctor.imports.confirm.run import Confirmation, HeldRun
from ci_doctor.imports.record.events import Site
from ci_doctor.imports.report.conclude import JudgedHazard, Seen, Standing, how_it_ended
from ci_doctor.model.finding import Evidence, Finding, Severity

RULES: Final = {
    HazardKind.REPLACED: "import-race/self-replacing",
    HazardKind.CYCLE: "import-race/cycle",
    HazardKind.SUBMODULE: "import-race/submodule-order",
    HazardKind.FAILED: "import-race/failed-import",
}
_WHAT: Final = {
    HazardKind.REPLACED: "{0} replaces itself in sys.modules",
    HazardKind.CYCLE: "{all} import each other",
    HazardKind.SUBMODULE: "{0} imports its submodule {last}",
    HazardKind.FAILED: "the import of {0} fails",
}
_SEVERITIES: Final = {
    Standing.FIRED: Severity.ERROR,
    Standing.CONFIRMED: Severity.ERROR,
    Standing.POSSIBLE: Severity.WARNING,
    Standing.OPEN: Severity.WARNING,
    Standing.SAFE: Severity.NOTE,
}
_CHAIN_SHOWN = 4


def findings(seen: Seen, excerpts: dict[int, str]) -> Iterator[Finding]:
    """All of them; `excerpts` are the last lines that held runs wrote to stderr, by their number."""
    for judged in seen.judged:
        yield _of_hazard(judged, seen, excerpts)
    yield from _not_followed(seen)
    if seen.spared:
        yield _spared(seen)
    if seen.recorded.unreadable or not seen.recorded.processes:
        yield _not_recorded(seen)
    if seen.command_failed and seen.recorded.processes and not seen.having(Standing.FIRED):
        yield _command_failed(seen)


def _of_hazard(judged: JudgedHazard, seen: Seen, excerpts: dict[int, str]) -> Finding:
    hazard = judged.candidate.worst
    rule = RULES[hazard.kind]
    if judged.standing is Standing.SAFE:
        rule = "import-race/not-confirmed"
    elif judged.standing is Standing.OPEN:
        rule = "import-race/not-settled"
    return Finding(
        rule=rule,
        severity=_SEVERITIES[judged.standing],
        summary=f"{what(hazard)}, {threads(hazard)}: {_standing(judged)}",
        evidence=tuple(_evidence(judged, seen, excerpts)),
        remedy=None if judged.standing is Standing.SAFE else hazard.remedy.text,
    )


def what(hazard: Hazard) -> str:
    """What is odd about its modules."""
    names = hazard.modules
    together = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    return _WHAT[hazard.kind].format(names[0], all=together, last=names[-1])


def threads(hazard: Hazard) -> str:
    """Who imports it."""
    first, second = hazard.first, hazard.second
    if hazard.kind is HazardKind.REPLACED or first.name == second.name:
        return f"and threads {first.thread} and {second.thread} import it"
    return f"and thread {first.thread} imports {first.name}, thread {second.thread} {second.name}"


def _standing(judged: JudgedHazard) -> str:
    confirmation = judged.confirmation
    match judged.standing:
        case Standing.FIRED:
            return "it fired in the recorded run"
        case Standing.CONFIRMED:
            return f"it fired in a run with a delay{_made_by(confirmation)}"
        case Standing.SAFE:
            return _not_made(confirmation)
        case Standing.OPEN:
            return (
                "the runs with a delay could not decide it"
                if confirmation
                else "no run was made for it"
            )
        case _:
            return "nothing orders the two imports"


def _made_by(confirmation: Confirmation | None) -> str:
    run = confirmation.fired_in if confirmation is not None else None
    if run is None:
        return ""
    # What a thread meets while another is held, it could have met without us: a delay adds no order that cannot be.
    return f" ({run.hold.describe()})"


def _not_made(confirmation: Confirmation | None) -> str:
    runs = confirmation.runs if confirmation is not None else ()
    limit_s = max((run.hold.limit_s for run in runs), default=0.0)
    if any(run.met for run in runs):
        return "a delay brought the two together, and nothing happened"
    return f"no other thread came within {limit_s:g} s of a delay, so something orders the two"


def _evidence(judged: JudgedHazard, seen: Seen, excerpts: dict[int, str]) -> Iterator[Evidence]:
    hazard = judged.candidate.worst
    yield _side(hazard.first)
    yield _side(hazard.second)
    yield Evidence(excerpt=f"{hazard.detail}{_elsewhere(judged, seen)}")
    if judged.confirmation is not None and judged.confirmation.fired_in is not None:
        yield _held(judged.confirmation.fired_in, excerpts)


def _side(side: Import) -> Evidence:
    names = f" ({', '.join(side.names)})" if side.names else ""
    lines = [f"thread {side.thread} imports {side.name}{names}"]
    if side.thread_started_at is not None:
        lines.append(f"started at {place(side.thread_started_at)}")
    outer = [site for site in side.chain if site != side.site]
    if len(outer) > _CHAIN_SHOWN:
        lines.append(f"… {len(outer) - _CHAIN_SHOWN} more")
    lines += [f"while {site.module} runs {place(site)}" for site in reversed(outer[:_CHAIN_SHOWN])]
    return Evidence(
        file=shown(side.site.file), line=side.site.line or None, excerpt="\n".join(lines)
    )


def _elsewhere(judged: JudgedHazard, seen: Seen) -> str:
    hazards = judged.candidate.hazards
    parts = []
    sites = {(each.first.site, each.second.site) for each in hazards}
    if len(sites) > 1:
        parts.append(f"the same at {len(sites) - 1} more pairs of places")
    pids = {each.pid for each in hazards}
    if len(seen.recorded.processes) > 1:
        parts.append(f"in process {', '.join(map(str, sorted(pids)))}")
    return "".join(f"\n{part}" for part in parts)


def _held(run: HeldRun, excerpts: dict[int, str]) -> Evidence:
    ended = (
        "was stopped, it did not end"
        if run.recorded.timed_out
        else f"ended with {how_it_ended(run.recorded)}"
    )
    lines = [f"the run with the delay {ended}"]
    failed = run.recorded.timed_out or run.recorded.exit_code != 0
    if failed and (said := excerpts.get(run.number)):
        lines.append(said)
    return Evidence(excerpt="\n".join(lines))


def _not_followed(seen: Seen) -> Iterator[Finding]:
    passes = not seen.judged
    for why, argvs in _escapes(seen).items():
        yield Finding(
            rule="import-race/not-followed",
            severity=Severity.WARNING if passes else Severity.NOTE,
            summary=f"{len(argvs)} of the Pythons that were started could not be followed: {why}",
            evidence=tuple(Evidence(excerpt=" ".join(argv)) for argv in argvs[:3]),
            remedy="start them without it while you look for import races: their imports are not known",
        )


def _escapes(seen: Seen) -> dict[str, list[tuple[str, ...]]]:
    by_reason: dict[str, list[tuple[str, ...]]] = {}
    for process in seen.recorded.processes:
        for escape in process.escapes:
            by_reason.setdefault(escape.why, []).append(escape.argv)
    return by_reason


def _spared(seen: Seen) -> Finding:
    names = sorted({name for hazard in seen.spared for name in hazard.modules[:1]})
    immune = [executable for executable, exposed in seen.interpreters.items() if exposed is False]
    return Finding(
        rule="import-race/interpreter-immune",
        severity=Severity.NOTE,
        summary=f"{', '.join(names)} replace themselves and are imported by two threads, which this interpreter survives",
        evidence=tuple(Evidence(file=shown(executable)) for executable in immune),
        remedy=seen.spared[0].remedy.text,
    )


def _not_recorded(seen: Seen) -> Finding:
    return Finding(
        rule="import-race/not-recorded",
        severity=Severity.WARNING,
        summary=f"not followed: {seen.isolated}"
        if seen.isolated
        else "imports were not recorded, or cannot be read",
        evidence=tuple(Evidence(excerpt=text) for text in seen.recorded.unreadable),
        remedy="give a command that starts a Python without `-I`, `-E` and `-S`",
    )


def _command_failed(seen: Seen) -> Finding:
    return Finding(
        rule="import-race/command-failed",
        severity=Severity.WARNING,
        summary=f"the command ended with {how_it_ended(seen.recorded)}, so it may have ended before some of its imports",
        remedy="give a command that succeeds, and record again",
    )


def place(site: Site) -> str:
    """`file:line`."""
    return f"{shown(site.file)}:{site.line}"


def shown(path: str) -> str:
    """`path` as a person types it."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path  # noqa: PTH117
    return path if relative.startswith("..") else relative


def standings(judged: Iterable[JudgedHazard]) -> dict[str, int]:
    """How many hazards there are of each standing."""
    counts = {str(standing): 0 for standing in Standing}
    for each in judged:
        counts[each.standing] += 1
    return counts
