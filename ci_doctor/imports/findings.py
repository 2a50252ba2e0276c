# SPDX-License-Identifier: Apache-2.0
"""Pure. The findings of a recording: each hazard with its imports, and what was not recorded."""

import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from ci_doctor.imports import rules
from ci_doctor.imports.confirm import Confirmation, HeldRun, Investigation, JudgedHazard
from ci_doctor.imports.kinds import Harm, HarmKind, harms, kind_of
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
    together = last
    if others:
        together = f"{', '.join(others)} and {last}"
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
    Standing.HARMLESS: "a thread was handed a wrong module, and nothing that it read was missing",
}


def findings(investigation: Investigation, excerpts: dict[int, str]) -> Iterator[Finding]:
    """All of them; `excerpts` has the last lines that runs with a delay wrote to stderr."""
    run = investigation.recorded
    for judged in investigation.judged:
        yield _of_hazard(judged, investigation, excerpts)
    yield from _not_followed(investigation)
    if investigation.spared:
        yield _immune(investigation)
    yield from _not_judged(investigation)
    if run.unreadable or not run.processes:
        yield _not_recorded(investigation)
    # A race that fired may be why the command failed: the failure is no finding of its own then.
    has_fired = bool(investigation.having(Standing.FIRED))
    if run.command_failed and run.processes and not has_fired:
        yield _command_failed(investigation)


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
    if judged.standing in _STANDINGS:
        return _STANDINGS[judged.standing]
    match judged.standing:
        case Standing.CONFIRMED if confirmation is not None and confirmation.fired_in is not None:
            # A delay adds no order that cannot come about by itself: what fires with it can fire
            # without it.
            return f"it fired in a run with a delay ({confirmation.fired_in.hold.describe()})"
        case Standing.SAFE if confirmation is not None:
            return _not_fired(confirmation)
        case Standing.OPEN:
            return _open(judged)
        case _:
            return "nothing orders the two imports"


def _open(judged: JudgedHazard) -> str:
    if not kind_of(judged.candidate.worst).delays(judged.candidate.worst):
        return "nothing orders the two, and no run with a delay decides it"
    if judged.confirmation is None:
        return "no run was made for it"
    return "the runs with a delay could not decide it"


def _not_fired(confirmation: Confirmation) -> str:
    longest_s = 0.0
    for run in confirmation.runs:
        # To have met without harm is the stronger evidence, in whichever run it was.
        if run.met:
            return "a delay brought the two together, and nothing happened"
        longest_s = max(longest_s, run.hold.limit_s)
    return (
        f"no other thread came within {duration(longest_s)} of a delay, so something orders the two"
    )


def _evidence(
    judged: JudgedHazard, investigation: Investigation, excerpts: dict[int, str]
) -> Iterator[Evidence]:
    hazard = judged.candidate.worst
    for side in (hazard.first, hazard.second):
        # A frame without a line number has line 0 in the trace.
        line = side.site.line or None
        yield Evidence(file=shown(side.site.file), line=line, excerpt=describe_import(side))
    lines = [hazard.detail, *_elsewhere(judged, investigation)]
    if judged.standing is Standing.FIRED:
        lines += _of_harm(judged, investigation.recorded)
    yield Evidence(excerpt="\n".join(lines))
    if judged.confirmation is not None and judged.confirmation.fired_in is not None:
        yield _of_run(judged, judged.confirmation.fired_in, excerpts)


def _of_harm(judged: JudgedHazard, run: RecordedRun) -> list[str]:
    """The first things that went wrong, each in a sentence."""
    harms_by_rank: dict[Harm, None] = {}
    for hazard in judged.candidate.hazards:
        harms_by_rank.update(dict.fromkeys(harms(hazard, run.processes)))
    return [describe_harm(harm) for harm in list(harms_by_rank)[:_HARMS_SHOWN]]


def _elsewhere(judged: JudgedHazard, investigation: Investigation) -> Iterator[str]:
    hazards = judged.candidate.hazards
    # Each pair once: several threads or processes may meet at the same two lines.
    places = {(hazard.first.site, hazard.second.site) for hazard in hazards}
    if len(places) > 1:
        yield f"the same at {len(places) - 1} more pairs of places"
    if len(investigation.recorded.processes) > 1:
        pids = {hazard.pid for hazard in hazards}
        listed = ", ".join(map(str, sorted(pids)))
        yield f"in process {listed}"


def _of_run(judged: JudgedHazard, run: HeldRun, excerpts: dict[int, str]) -> Evidence:
    recorded = run.recorded
    ending = f"ended with {recorded.describe_end()}"
    if recorded.timed_out:
        ending = "was stopped, it did not end"
    lines = [*_of_harm(judged, recorded), f"the run with the delay {ending}"]
    if run.newly_failed:
        failed = ", ".join(run.newly_failed[:_HARMS_SHOWN])
        lines.append(f"the import of {failed} failed, and succeeds without the delay")
    # A program that ends well may still write warnings, which would look like evidence.
    excerpt = excerpts.get(run.number)
    if excerpt and (recorded.timed_out or recorded.exit_code != 0):
        lines.append(excerpt)
    return Evidence(excerpt="\n".join(lines))


def _not_followed(investigation: Investigation) -> Iterator[Finding]:
    # One finding for a reason: a test suite may start the same tool a thousand times.
    by_reason: dict[str, list[str]] = defaultdict(list)
    for process in investigation.recorded.processes:
        for escape in process.escapes:
            by_reason[escape.why].append(" ".join(escape.argv))
    # With a hazard the result is not a pass anyway; without one, the child may be what raced.
    severity = Severity.WARNING
    if investigation.judged:
        severity = Severity.NOTE
    for why, commands in by_reason.items():
        evidence = [Evidence(excerpt=command) for command in commands[:_COMMANDS_SHOWN]]
        yield rules.NOT_FOLLOWED.finding(
            f"{len(commands)} of the Pythons that were started could not be followed: {why}",
            evidence=tuple(evidence),
            remedy=rules.NOT_FOLLOWED.remedy,
            severity=severity,
        )


def _not_judged(investigation: Investigation) -> Iterator[Finding]:
    # One finding for a reason: each worker of a server has the same one.
    commands: dict[str, list[str]] = defaultdict(list)
    for process in investigation.recorded.processes:
        for why in process.unjudged:
            commands[why].append(" ".join(process.argv))
    for why, processes in commands.items():
        evidence = [Evidence(excerpt=command) for command in processes[:_COMMANDS_SHOWN]]
        yield rules.NOT_JUDGED.finding(
            f"imports cannot be judged in {len(processes)} of the processes: {not_judged(why)}",
            evidence=tuple(evidence),
            remedy=rules.NOT_JUDGED.remedy,
        )


def _immune(investigation: Investigation) -> Finding:
    names = {hazard.modules[0] for hazard in investigation.spared}
    evidence = []
    for executable, exposed in investigation.interpreters.items():
        if exposed is False:
            evidence.append(Evidence(file=shown(executable)))
    return rules.INTERPRETER_IMMUNE.finding(
        f"{', '.join(sorted(names))} replace themselves and are imported by two threads, "
        "which this interpreter survives",
        evidence=tuple(evidence),
        remedy=remedy(investigation.spared[0], investigation.rules).text,
    )


def _not_recorded(investigation: Investigation) -> Finding:
    summary = "imports were not recorded, or cannot be read"
    if investigation.isolated:
        summary = f"not followed: {investigation.isolated}"
    evidence = [Evidence(excerpt=text) for text in investigation.recorded.unreadable]
    return rules.NOT_RECORDED.finding(
        summary,
        evidence=tuple(evidence),
        remedy=rules.NOT_RECORDED.remedy,
    )


def _command_failed(investigation: Investigation) -> Finding:
    ending = investigation.recorded.describe_end()
    return rules.COMMAND_FAILED.finding(
        f"the command ended with {ending}, so it may have ended before some of its imports",
        remedy=rules.COMMAND_FAILED.remedy,
    )
