# SPDX-License-Identifier: Apache-2.0
"""Pure. The findings of a recording: each hazard with its imports, and what was not recorded."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from ci_doctor.imports import rules
from ci_doctor.imports.confirm import HeldRun, Investigation, JudgedHazard
from ci_doctor.imports.hazards import Harm, HarmKind, harms, kind_of
from ci_doctor.imports.remedy import remedy
from ci_doctor.imports.trace import RecordedRun
from ci_doctor.model.facts.import_race import Hazard, Import, Site, Standing
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.render.formatting import duration

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
    together = f"{', '.join(others)} and {last}" if others else last
    return kind_of(hazard).what.format(first=first, all=together, last=last)


def threads(hazard: Hazard) -> str:
    """Which threads import them."""
    first = hazard.first
    second = hazard.second
    words = kind_of(hazard).threads
    if words is not None:
        return words.format(first=first.thread, second=second.thread)
    if first.name == second.name:
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
    where = "" if harm.site is None else f" at {place(harm.site)}"
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
    return path if relative.startswith("..") else relative


# Examples of what was started; the facts list all.
_COMMANDS_SHOWN = 3
# What went wrong first; all of it follows from one race.
_HARMS_SHOWN = 3
# Harm is an error even if the program ignored it: another run may not be able to.
_SEVERITIES: Final = {
    Standing.FIRED: Severity.ERROR,
    Standing.CONFIRMED: Severity.ERROR,
    Standing.POSSIBLE: Severity.WARNING,
    Standing.OPEN: Severity.WARNING,
    Standing.HARMLESS: Severity.WARNING,
    Standing.SAFE: Severity.NOTE,
}

_STANDINGS: Final = {
    Standing.FIRED: "it fired in the recorded run",
    Standing.OPEN: "the runs with a delay could not decide it",
    Standing.HARMLESS: "a thread was handed a wrong module, and nothing that it read was missing",
}


def findings(investigation: Investigation, excerpts: dict[int, str]) -> Iterator[Finding]:
    """All of them; `excerpts` has the last lines that runs with a delay wrote to stderr."""
    run = investigation.recorded
    for judged in investigation.judged:
        yield _of_hazard(judged, investigation, excerpts)
    # With a hazard the result is not a pass anyway; without one, the child may be what raced.
    severity = Severity.NOTE if investigation.judged else Severity.WARNING
    escapes = [(each.why, each.argv) for process in run.processes for each in process.escapes]
    for why, commands in _by_reason(escapes):
        yield rules.NOT_FOLLOWED.finding(
            f"{len(commands)} of the Pythons that were started could not be followed: {why}",
            evidence=commands[:_COMMANDS_SHOWN],
            remedy=rules.NOT_FOLLOWED.remedy,
            severity=severity,
        )
    if investigation.spared:
        names = {hazard.modules[0] for hazard in investigation.spared}
        immune = [
            python for python, exposed in investigation.interpreters.items() if exposed is False
        ]
        yield rules.INTERPRETER_IMMUNE.finding(
            f"{', '.join(sorted(names))} replace themselves and are imported by two threads, "
            "which this interpreter survives",
            evidence=tuple(Evidence(file=shown(python)) for python in immune),
            remedy=remedy(investigation.spared[0], investigation.rules).text,
        )
    unjudged = [(why, process.argv) for process in run.processes for why in process.unjudged]
    for why, commands in _by_reason(unjudged):
        yield rules.NOT_JUDGED.finding(
            f"imports cannot be judged in {len(commands)} of the processes: {not_judged(why)}",
            evidence=commands[:_COMMANDS_SHOWN],
            remedy=rules.NOT_JUDGED.remedy,
        )
    yield from _of_recording(investigation)


def _by_reason(
    commands: Iterable[tuple[str, tuple[str, ...]]],
) -> Iterator[tuple[str, tuple[Evidence, ...]]]:
    """The commands of each reason: a test suite may start the same tool a thousand times."""
    by_reason: dict[str, list[Evidence]] = defaultdict(list)
    for why, argv in commands:
        by_reason[why].append(Evidence(excerpt=" ".join(argv)))
    for why, evidence in by_reason.items():
        yield why, tuple(evidence)


def _of_recording(investigation: Investigation) -> Iterator[Finding]:
    """What is wrong with the recording as a whole."""
    run = investigation.recorded
    if run.unreadable or not run.processes:
        summary = "imports were not recorded, or cannot be read"
        if investigation.isolated:
            summary = f"not followed: {investigation.isolated}"
        yield rules.NOT_RECORDED.finding(
            summary,
            evidence=tuple(Evidence(excerpt=text) for text in run.unreadable),
            remedy=rules.NOT_RECORDED.remedy,
        )
    # A race that fired may be why the command failed: the failure is no finding of its own then.
    has_fired = bool(investigation.having(Standing.FIRED))
    if run.command_failed and run.processes and not has_fired:
        yield rules.COMMAND_FAILED.finding(
            f"the command ended with {run.describe_end()}, so it may have ended before some of its "
            "imports",
            remedy=rules.COMMAND_FAILED.remedy,
        )


def _of_hazard(
    judged: JudgedHazard, investigation: Investigation, excerpts: dict[int, str]
) -> Finding:
    hazard = judged.candidate.worst
    rule = kind_of(hazard).rule
    advice: str | None = remedy(hazard, investigation.rules).text
    # What the runs with a delay show is the finding then, and no longer the kind of the hazard.
    if judged.standing is Standing.SAFE:
        rule = rules.NOT_CONFIRMED
        advice = None
    elif judged.standing is Standing.OPEN and kind_of(hazard).delays(hazard):
        rule = rules.NOT_SETTLED
    return rule.finding(
        f"{what(hazard)}, {threads(hazard)}: {_standing(judged)}",
        evidence=tuple(_evidence(judged, investigation, excerpts)),
        remedy=advice,
        severity=_SEVERITIES[judged.standing],
    )


def _standing(judged: JudgedHazard) -> str:
    confirmation = judged.confirmation
    words = _STANDINGS.get(judged.standing, "nothing orders the two imports")
    if judged.standing is Standing.CONFIRMED and judged.hold is not None:
        # A delay adds no order that cannot come about by itself: what fires with it can fire
        # without it.
        words = f"it fired in a run with a delay ({judged.hold.describe()})"
    if judged.standing is Standing.SAFE and confirmation is not None:
        longest = duration(max(run.hold.limit_s for run in confirmation.runs))
        words = f"no other thread came within {longest} of a delay, so something orders the two"
        # To have met without harm is the stronger evidence, in whichever run it was.
        if any(run.met for run in confirmation.runs):
            words = "a delay brought the two together, and nothing happened"
    if judged.standing is Standing.OPEN and confirmation is None:
        words = "no run was made for it"
        if not kind_of(judged.candidate.worst).delays(judged.candidate.worst):
            words = "nothing orders the two, and no run with a delay decides it"
    return words


def _evidence(
    judged: JudgedHazard, investigation: Investigation, excerpts: dict[int, str]
) -> Iterator[Evidence]:
    hazards = judged.candidate.hazards
    for side in (hazards[0].first, hazards[0].second):
        # A frame without a line number has line 0 in the trace.
        line = side.site.line or None
        yield Evidence(file=shown(side.site.file), line=line, excerpt=describe_import(side))
    lines = [hazards[0].detail]
    # Each pair once: several threads or processes may meet at the same two lines.
    places = {(hazard.first.site, hazard.second.site) for hazard in hazards}
    if len(places) > 1:
        lines.append(f"the same at {len(places) - 1} more pairs of places")
    if len(investigation.recorded.processes) > 1:
        pids = sorted({hazard.pid for hazard in hazards})
        lines.append(f"in process {', '.join(map(str, pids))}")
    if judged.standing is Standing.FIRED:
        lines += _of_harm(judged, investigation.recorded)
    yield Evidence(excerpt="\n".join(lines))
    if judged.confirmation is not None and judged.confirmation.fired_in is not None:
        yield _of_run(judged, judged.confirmation.fired_in, excerpts)


def _of_run(judged: JudgedHazard, held: HeldRun, excerpts: dict[int, str]) -> Evidence:
    recorded = held.recorded
    ending = f"ended with {recorded.describe_end()}"
    if recorded.timed_out:
        ending = "was stopped, it did not end"
    lines = [*_of_harm(judged, recorded), f"the run with the delay {ending}"]
    if held.newly_failed:
        failed = ", ".join(held.newly_failed[:_HARMS_SHOWN])
        lines.append(f"the import of {failed} failed, and succeeds without the delay")
    # A program that ends well may still write warnings, which would look like evidence.
    excerpt = excerpts.get(held.number)
    if excerpt and (recorded.timed_out or recorded.exit_code != 0):
        lines.append(excerpt)
    return Evidence(excerpt="\n".join(lines))


def _of_harm(judged: JudgedHazard, run: RecordedRun) -> list[str]:
    """The first things that went wrong, each in a sentence."""
    harms_by_rank: dict[Harm, None] = {}
    for hazard in judged.candidate.hazards:
        harms_by_rank.update(dict.fromkeys(harms(hazard, run.processes)))
    return [describe_harm(harm) for harm in list(harms_by_rank)[:_HARMS_SHOWN]]
