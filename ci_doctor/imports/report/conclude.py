# SPDX-License-Identifier: Apache-2.0
"""What a recording means, and what the runs with a delay have added to it. Pure."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from ci_doctor.imports.analyse.hazard import Hazard
from ci_doctor.imports.confirm.delays import Candidate
from ci_doctor.imports.confirm.run import Confirmation
from ci_doctor.imports.record.run import RecordedRun
from ci_doctor.model.verdict import Verdict


class Standing(StrEnum):
    """What is known of a hazard at the end. SAFE: no delay made it happen. OPEN: the runs with a delay could not decide."""

    FIRED = "fired"
    CONFIRMED = "confirmed"
    POSSIBLE = "possible"
    OPEN = "open"
    SAFE = "not confirmed"


class JudgedHazard(Struct, frozen=True, kw_only=True):
    """A hazard, at all its places, with what is known of it; `confirmation` is None where no run was made for it."""

    candidate: Candidate
    standing: Standing
    confirmation: Confirmation | None = None


class Seen(Struct, frozen=True, kw_only=True):
    """All that was gathered.

    `judged` are the hazards, worst first. `spared` are those that an immune interpreter does not have; `interpreters` says
    of each executable whether it is exposed to the race of self-replacing modules, None where that could not be asked.
    `isolated` says why the command's own Python is not followed. `confirming`: runs with a delay were asked for.
    `is_whole` is False where a process asked for more than is compared, so that there may be more hazards than `judged`.
    """

    recorded: RecordedRun
    judged: tuple[JudgedHazard, ...] = ()
    spared: tuple[Hazard, ...] = ()
    interpreters: Mapping[str, bool | None] = {}
    isolated: str | None = None
    confirming: bool = False
    is_whole: bool = True

    def having(self, *standings: Standing) -> tuple[JudgedHazard, ...]:
        """Those hazards of which this is known."""
        return tuple(each for each in self.judged if each.standing in standings)

    @property
    def command_failed(self) -> bool:
        """Whether the command did not succeed, by itself."""
        run = self.recorded
        return not run.timed_out and run.exit_code != 0


class RaceConclusion(Struct, frozen=True, kw_only=True):
    """The verdict, and one sentence that gives the reason."""

    verdict: Verdict
    summary: str


def judge(
    groups: tuple[Candidate, ...], confirmations: tuple[Confirmation, ...], *, confirming: bool
) -> tuple[JudgedHazard, ...]:
    """What is known of each of `groups`; those of `confirmations` are among them."""
    return tuple(_judge(group, confirmations, confirming=confirming) for group in groups)


def _judge(
    group: Candidate, confirmations: tuple[Confirmation, ...], *, confirming: bool
) -> JudgedHazard:
    if group.has_fired:
        return JudgedHazard(candidate=group, standing=Standing.FIRED)
    confirmation = next((each for each in confirmations if each.candidate is group), None)
    if confirmation is None:
        return JudgedHazard(
            candidate=group, standing=Standing.OPEN if confirming else Standing.POSSIBLE
        )
    if confirmation.fired_in is not None:
        standing = Standing.CONFIRMED
    else:
        standing = Standing.SAFE if confirmation.is_settled else Standing.OPEN
    return JudgedHazard(candidate=group, standing=standing, confirmation=confirmation)


def conclude(seen: Seen) -> RaceConclusion:
    """The verdict: what has happened stands, whatever else is missing; what is missing is never a pass."""
    happened = seen.having(Standing.FIRED, Standing.CONFIRMED)
    if happened:
        return RaceConclusion(verdict=Verdict.REGRESSION, summary=_happened(seen, len(happened)))
    if reason := _nothing_known(seen):
        return RaceConclusion(verdict=Verdict.VOID, summary=reason)
    if reason := _undecided(seen):
        return RaceConclusion(verdict=Verdict.INCONCLUSIVE, summary=reason)
    return RaceConclusion(verdict=Verdict.PASS, summary=_safe(seen))


def _undecided(seen: Seen) -> str | None:
    possible, unsettled = len(seen.having(Standing.POSSIBLE)), len(seen.having(Standing.OPEN))
    if possible:
        return f"{_races(possible)} can happen here, none did in this run; `--confirm` settles it"
    if unsettled:
        return f"{_races(unsettled)} can happen here as far as it is known, and {_runs(seen)} could not decide it"
    if not seen.is_whole:
        return f"{_safe(seen)}, as far as it was compared: its threads import more than can be compared in full"
    if seen.command_failed:
        return f"no import race was seen, but the command ended with {how_it_ended(seen.recorded)}"
    return None


def how_it_ended(recorded: RecordedRun) -> str:
    """`exit code 1`, `SIGSEGV`."""
    if recorded.signal is not None:
        return recorded.signal
    return (
        f"exit code {recorded.exit_code}" if recorded.exit_code is not None else "an unknown status"
    )


def _happened(seen: Seen, count: int) -> str:
    fired, others = len(seen.having(Standing.FIRED)), len(seen.judged) - count
    parts = [f"{fired} fired in the recorded run"] if fired else []
    if fired and seen.command_failed:
        parts[0] += f", which then ended with {how_it_ended(seen.recorded)}"
    if count - fired:
        parts.append(f"{count - fired} fired once the right import was delayed")
    if seen.confirming and (safe := len(seen.having(Standing.SAFE))):
        parts.append(f"{safe} could not be made to fire")
    elif others and not seen.confirming:
        parts.append("`--confirm` settles the others")
    return f"{_races(len(seen.judged))} can happen here; {'; '.join(parts)}"


def _nothing_known(seen: Seen) -> str | None:
    run = seen.recorded
    if seen.isolated is not None:
        return f"the command's own Python is not followed, so nothing is known: {seen.isolated}"
    if not run.processes:
        return "nothing was recorded: no Python that reads PYTHONPATH and runs `site` was started"
    if unarmed := [process for process in run.processes if not process.armed]:
        first = unarmed[0]
        return f"process {first.pid} (Python {first.version}) was not recorded: its import system is not one that is known"
    if run.unreadable:
        return f"{_traces(len(run.unreadable))} cannot be read, so that what is known is not whole"
    return None


def _safe(seen: Seen) -> str:
    safe = len(seen.having(Standing.SAFE))
    if safe:
        return f"no import race: {safe} seemed possible, and {_runs(seen)} did not make {'it' if safe == 1 else 'one'} fire"
    processes = len(seen.recorded.processes)
    where = "1 process" if processes == 1 else f"{processes} processes"
    if seen.spared:
        return f"no import race in {where}: the interpreter is immune to the {len(seen.spared)} that others would have"
    return f"no import race in {where}"


def _runs(seen: Seen) -> str:
    count = len(
        {run.number for each in seen.judged if each.confirmation for run in each.confirmation.runs}
    )
    return "1 run with a delay" if count == 1 else f"{count} runs with a delay"


def _races(count: int) -> str:
    return "1 import race" if count == 1 else f"{count} import races"


def _traces(count: int) -> str:
    return "1 trace" if count == 1 else f"{count} traces"
