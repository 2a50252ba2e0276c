# SPDX-License-Identifier: Apache-2.0
"""From an investigation to its verdict. Pure."""

from msgspec import Struct

from ci_doctor.imports.confirm.standing import Standing
from ci_doctor.imports.investigation import Investigation
from ci_doctor.imports.record.recorded import RecordedRun
from ci_doctor.imports.report.describe import not_judged
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount


class RaceConclusion(Struct, frozen=True, kw_only=True):
    """The verdict, and one sentence that gives the reason."""

    verdict: Verdict
    summary: str


def conclude(investigation: Investigation) -> RaceConclusion:
    """The verdict. What happened counts, whatever else is missing; what is missing never passes."""
    if investigation.having(Standing.FIRED, Standing.CONFIRMED):
        # Not a regression: nothing was compared with a run before the change.
        return RaceConclusion(verdict=Verdict.FAILED, summary=_happened(investigation))
    gap = nothing_known(investigation)
    if gap is not None:
        return RaceConclusion(verdict=Verdict.VOID, summary=gap)
    doubt = _undecided(investigation)
    if doubt is not None:
        return RaceConclusion(verdict=Verdict.INCONCLUSIVE, summary=doubt)
    return RaceConclusion(verdict=Verdict.PASS, summary=_safe(investigation))


def _happened(investigation: Investigation) -> str:
    fired = len(investigation.having(Standing.FIRED))
    confirmed = len(investigation.having(Standing.CONFIRMED))
    harmless = len(investigation.having(Standing.HARMLESS))
    safe = len(investigation.having(Standing.SAFE))
    others = len(investigation.judged) - fired - confirmed
    parts = []
    if fired:
        ending = ""
        if investigation.recorded.command_failed:
            ending = f", which then ended with {investigation.recorded.describe_end()}"
        parts.append(f"{fired} fired in the recorded run{ending}")
    if confirmed:
        parts.append(f"{confirmed} fired once the right import was delayed")
    if harmless:
        parts.append(f"{harmless} did no harm that was seen")
    # Without --confirm there is no SAFE one, but others that it could settle.
    if investigation.confirming and safe:
        parts.append(f"{safe} could not be made to fire")
    elif others and not investigation.confirming:
        parts.append("`--confirm` settles the others")
    return f"{_races(len(investigation.judged))} can happen here; {'; '.join(parts)}"


def nothing_known(investigation: Investigation) -> str | None:
    """Why the recording is no evidence, if it is none."""
    run = investigation.recorded
    if investigation.isolated is not None:
        return (
            "the command's own Python is not followed, so nothing is known: "
            f"{investigation.isolated}"
        )
    if not run.processes:
        return "nothing was recorded: no Python that reads PYTHONPATH and runs `site` was started"
    if unjudged := _unjudged(run):
        return unjudged
    for process in run.processes:
        if not process.armed:
            return (
                f"process {process.pid} (Python {process.version}) was not recorded: "
                "its import system is not one that is known"
            )
    if run.unreadable:
        traces = amount(len(run.unreadable), "trace")
        return f"{traces} cannot be read, so that what is known is not whole"
    return None


def _unjudged(run: RecordedRun) -> str | None:
    for process in run.processes:
        for why in process.unjudged:
            return f"process {process.pid} cannot be judged: {not_judged(why)}"
    return None


def _undecided(investigation: Investigation) -> str | None:
    """Why the evidence is not enough, if it is not."""
    possible = len(investigation.having(Standing.POSSIBLE))
    unsettled = len(investigation.having(Standing.OPEN))
    if possible:
        races = _races(possible)
        return f"{races} can happen here, none did in this run; `--confirm` settles it"
    if unsettled:
        return (
            f"{_races(unsettled)} can happen here as far as it is known, "
            f"and {_runs(investigation)} could not decide it"
        )
    if not investigation.is_whole:
        return (
            f"{_safe(investigation)}, as far as it was compared: "
            "its threads import more than can be compared in full"
        )
    if investigation.recorded.command_failed:
        ending = investigation.recorded.describe_end()
        return f"no import race was recorded, but the command ended with {ending}"
    return None


def _safe(investigation: Investigation) -> str:
    harmless = len(investigation.having(Standing.HARMLESS))
    if harmless:
        return (
            f"{_races(harmless)} can happen here, and did no harm in "
            f"{_runs(investigation)}: no name was missing"
        )
    safe = len(investigation.having(Standing.SAFE))
    if safe:
        what = "one"
        if safe == 1:
            what = "it"
        runs = _runs(investigation)
        return f"no import race: {safe} seemed possible, and {runs} did not make {what} fire"
    processes = len(investigation.recorded.processes)
    where = f"{processes} processes"
    if processes == 1:
        where = "1 process"
    known = len(investigation.having(Standing.KNOWN))
    if known:
        return f"no import race in {where} besides {known} in the baseline"
    spared = len(investigation.spared)
    if spared:
        return (
            f"no import race in {where}: "
            f"the interpreter is immune to the {spared} that others would have"
        )
    return f"no import race in {where}"


def _runs(investigation: Investigation) -> str:
    # By number: one run may count for several hazards.
    numbers: set[int] = set()
    for judged in investigation.judged:
        if judged.confirmation is not None:
            for run in judged.confirmation.runs:
                numbers.add(run.number)
    return f"{amount(len(numbers), 'run')} with a delay"


def _races(count: int) -> str:
    return amount(count, "import race")
