# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: records a command, finds its import hazards and confirms them."""

import contextlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from ci_doctor.imports.confirm import (
    REPEATS,
    HeldRun,
    Investigation,
    Race,
    can_fire,
    confirm,
    judge_rule,
    races,
    time_limit_s,
)
from ci_doctor.imports.crossings import Hold
from ci_doctor.imports.hazards import find_in_all, newly_failed, rule_of
from ci_doctor.imports.recording import RecordingPlan, Streams, check_interpreters, record
from ci_doctor.imports.report import interrupted, race_outcome
from ci_doctor.imports.trace import RecordedProcess, RecordedRun
from ci_doctor.model.facts.import_race import RuleStanding, Standing
from ci_doctor.model.outcome import Failure, Outcome
from ci_doctor.preload.injection import ISOLATING, isolation, with_rules
from ci_doctor.preload.preload_rule import PreloadRule, format_rule
from ci_doctor.system.files.access import make_directory, open_closed_streams, own_directory
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.redaction import Redactor, redact_files

# Each takes up to 9 runs of the command; a program with more races has one to fix already.
CANDIDATES = 10


class RaceRequest(Struct, frozen=True, kw_only=True):
    """What is run and how.

    environ: by default that of this process. output: the file descriptor that gets the command's
    stdout. timeout_s: ends a command that does not end by itself. confirming: at most `candidates`
    hazards are confirmed, each in at most `repeats` runs for each of its delays.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    output: int = 1
    timeout_s: float | None = None
    confirming: bool = False
    candidates: int = CANDIDATES
    repeats: int = REPEATS


def investigate(
    request: RaceRequest,
    scratch: Path,
    logs: Path,
    interruption: Interruption,
    say: Callable[[str], None],
) -> Investigation:
    """Record the command, judge its imports, and confirm hazards if the request says so.

    Traces go into the folder `scratch`, the output of runs with a delay into `logs`; `say` prints
    progress. `interruption` must be handling signals: the first one ends the current run, and no
    other is made. Raises as `record` does.
    """
    stdin = _Stdin()
    plan = RecordingPlan(
        command=request.command,
        environ=request.environ,
        timeout_s=request.timeout_s,
        streams=Streams(output=request.output),
    )
    recorded = record(plan, _for_all_users(scratch / "recorded"), interruption)
    interpreters = check_interpreters(recorded)
    hazards = find_in_all(recorded, interpreters)
    judged = races(hazards.hazards)
    runs = _HeldRuns(request, recorded, (scratch, logs), interruption, stdin)
    if request.confirming and interruption.received is None:
        # What has fired needs no run: it is proven.
        unproven = [race for race in judged if race.delays and not race.has_fired]
        confirm(unproven[: request.candidates], runs.make, say, repeats=request.repeats)
    for race in judged:
        race.judge(confirming=request.confirming, command_failed=recorded.command_failed)
    rules = _rule_standings(judged, recorded.processes)
    if request.confirming:
        for each in judged:
            if interruption.received is None:
                rules |= runs.try_rule(each, rules, say)
    option = isolation(request.command, request.environ)
    return Investigation(
        recorded=recorded,
        races=judged,
        rules=rules,
        runs=tuple(runs.made),
        is_whole=hazards.is_whole,
        interpreters=interpreters,
        isolated=f"{option} ({ISOLATING[option]})" if option else None,
        confirming=request.confirming,
    )


def _rule_standings(
    judged: Sequence[Race], processes: Sequence[RecordedProcess]
) -> dict[str, RuleStanding]:
    """Which of the rules for the hazards can fire."""
    standings: dict[str, RuleStanding] = {}
    for hazard in (hazard for race in judged for hazard in race.hazards):
        rule = rule_of(hazard)
        if rule is not None:
            fires = can_fire(hazard, processes)
            standing = RuleStanding.UNTRIED if fires else RuleStanding.IMPOSSIBLE
            # One that fires in one process and not in another does not help that one.
            if not fires or format_rule(rule) not in standings:
                standings[format_rule(rule)] = standing
    return standings


class _HeldRuns:
    """Makes the runs with a delay; `made` are those so far."""

    def __init__(
        self,
        request: RaceRequest,
        recorded: RecordedRun,
        folders: tuple[Path, Path],
        interruption: Interruption,
        stdin: "_Stdin",
    ) -> None:
        self.request = request
        self.recorded = recorded
        self.scratch, self.logs = folders
        self.interruption = interruption
        self.stdin = stdin
        self.made: list[HeldRun] = []

    def try_rule(
        self, race: Race, known: Mapping[str, RuleStanding], say: Callable[[str], None]
    ) -> dict[str, RuleStanding]:
        """The standing of the rule for a race that fired, after a run with it and that delay."""
        rule = rule_of(race.worst)
        if rule is None or known.get(format_rule(rule)) is not RuleStanding.UNTRIED:
            return {}
        if race.standing not in {Standing.FIRED, Standing.CONFIRMED}:
            return {}
        tried = []
        # The delays under which it must win; none for what only stands beside a failure.
        delays = race.delays if race.has_fired else ()
        for hold in delays if race.hold is None else (race.hold,):
            say(f"trying the rule {format_rule(rule)}: {hold.describe()}…")
            tried.append(self.make(len(self.made) + 1, hold, rule))
        return {format_rule(rule): judge_rule(race, rule, tried, self.recorded)}

    def make(self, number: int, hold: Hold, rule: PreloadRule | None = None) -> HeldRun:
        """Run the command with the delay `hold`, and with `rule`."""
        environ = dict(self.request.environ)
        preloads = self.scratch / f"preload-{number}"
        if rule is not None:
            environ = with_rules(environ, (rule,))
            environ["CI_DOCTOR_PRELOAD_TRACE"] = str(preloads)
            environ.pop("CI_DOCTOR_PRELOAD", None)
        self.stdin.rewind()
        traces = _for_all_users(self.scratch / f"held-{number}")
        make_directory(self.logs)
        output = self.logs / f"held-{number}.stdout"
        error = self.logs / f"held-{number}.stderr"
        with output.open("wb") as stdout, error.open("wb") as stderr:
            plan = RecordingPlan(
                command=self.request.command,
                environ=environ,
                hold=hold.text(),
                timeout_s=time_limit_s(self.recorded, hold, self.request.timeout_s),
                streams=Streams(output=stdout.fileno(), error=stderr.fileno()),
            )
            held = record(plan, traces, self.interruption)
        run = HeldRun(
            number=number,
            hold=hold,
            recorded=held,
            output=output,
            error=error,
            ended_as_recorded=_end(held) == _end(self.recorded),
            newly_failed=newly_failed(self.recorded.processes, held.processes),
            rule=None if rule is None else format_rule(rule),
            preloaded=preloads.read_text(errors="replace") if preloads.exists() else "",
        )
        self.made.append(run)
        return run


def _end(recorded: RecordedRun) -> tuple[object, ...]:
    return recorded.exit_code, recorded.signal, recorded.timed_out


def _for_all_users(folder: Path) -> Path:
    """The new `folder`, writable for all users if we are root.

    A command that drops its privileges, or starts children as other users, writes there as those.
    """
    folder.mkdir()
    if os.geteuid() == 0:
        folder.parent.chmod(0o711)  # others cannot list it, and its name is random
        folder.chmod(0o733)
    return folder


class _Stdin:
    """Our stdin: if it is a file, each run reads it from where the first one did."""

    def __init__(self) -> None:
        self._start: int | None = None
        with contextlib.suppress(OSError):  # it may be closed
            if stat.S_ISREG(os.fstat(0).st_mode):
                self._start = os.lseek(0, 0, os.SEEK_CUR)

    def rewind(self) -> None:
        if self._start is not None:
            os.lseek(0, self._start, os.SEEK_SET)


LOGS = "import-race"  # the folder in the report directory
# The end of a traceback; a program that hangs may have written gigabytes before.
_EXCERPT_LINES = 8
_EXCERPT_BYTES = 8192
# The exit status of a shell for a command that it cannot run.
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


def run(
    request: RaceRequest,
    *,
    directory: Path | None,
    redactor: Redactor,
    interruption: Interruption | None = None,
    on_event: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Record `request.command`, find its import races and, on request, confirm them.

    The output of runs with a delay goes into the folder `import-race` of the report directory
    `directory`; without one it is dropped. `on_event` gets a sentence before
    each run with a delay, and each warning. `interruption` must be handling signals: the first one
    ends the command and everything below it. Raises InfraError if the command cannot be supervised.
    """
    open_closed_streams()
    interruption = interruption or Interruption()
    with own_directory("import-race") as folder:
        scratch = Path(folder)
        logs = scratch / "logs"
        if directory is not None:
            logs = directory.absolute() / LOGS
        try:
            investigation = investigate(request, scratch, logs, interruption, on_event)
        except OSError as error:
            # Only an error about the command itself: any other is one of ours.
            if error.errno is None or error.filename != request.command[0]:
                raise
            status = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
            return not_run(status, f"{request.command[0]}: {error.strerror}")
        # Before anything is quoted or uploaded.
        runs = investigation.runs
        files = [file for held in runs for file in (held.output, held.error)]
        for warning in redact_files(files, redactor):
            on_event(f"warning: {warning}")
        excerpts = {held.number: _last_lines(held.error) for held in runs}
    kept_logs = {}
    if directory is not None:
        kept_logs = {held.number: os.path.relpath(held.error, directory) for held in runs}
    outcome = race_outcome(investigation, excerpts, kept_logs)
    if interruption.received is not None:
        return interrupted(outcome, interruption.received)
    return outcome


def not_run(status: int, message: str) -> Outcome:
    """The outcome of a command that cannot be run; `status` is the exit status of a shell."""
    error = Failure(message=message, hint="check the command after `--`; nothing was started")
    return Outcome(verdict=None, summary=message, error=error, command_status=status)


def _last_lines(path: Path) -> str:
    """The end of what a run wrote; empty if the file is gone."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _EXCERPT_BYTES))
        # The first character may be cut in two there.
        text = file.read().decode("utf-8", "replace")
        lines = text.rstrip().splitlines()
        return "\n".join(lines[-_EXCERPT_LINES:])
    return ""
