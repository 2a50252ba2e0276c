# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: runs a command beside us, and looks for the cause if it fails."""

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct, structs

from ci_doctor.errors import CiDoctorError, Terminated, UsageError
from ci_doctor.model.facts.diagnose import DiagnoseFacts, SupervisedRunFacts
from ci_doctor.model.outcome import Attachment, Outcome
from ci_doctor.render.formatting import percent, printable
from ci_doctor.system import clock
from ci_doctor.system.files.access import own_directory
from ci_doctor.system.files.disks import full_disks
from ci_doctor.system.processes.interruption import signals_noted
from ci_doctor.system.processes.kernel_words import MemoryEvents, counted
from ci_doctor.system.processes.process import describe_status, signal_name
from ci_doctor.system.relay import CommandEnd, Companion, relay
from ci_doctor.system.relay_output import CommandLog
from ci_doctor.system.secrets.private_keys import shortened_words

if TYPE_CHECKING:
    from ci_doctor.model.cause import Cause
    from ci_doctor.system.secrets.redaction import Redactor


class SupervisionRequest(Struct, frozen=True, kw_only=True):
    """`command` with `environ`, as `prepared` reports it, unless nothing was prepared.

    directory: where its log stays; None if it is not kept. log_limit: bytes. retry_status: how a
    failure ends if its cause lies outside the change, another run helps and the command ended by
    it; None for the command's own status. rules: a repository's own files.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str]
    prepared: Outcome
    directory: Path | None
    log_limit: int
    retry_status: int | None = None
    rules: tuple[Path, ...] = ()
    is_prepared: bool = True


class Supervised(Struct, frozen=True, kw_only=True):
    """What became of it: the `outcome`, and the `text` for a person, empty after a success.

    signal: the one to end by, as the command did; None to end with the outcome's status. is_explained:
    the cause of a failure was looked for.
    """

    outcome: Outcome
    text: str
    signal: int | None
    is_explained: bool = False


MOST_LINES: Final = 12
_CONSEQUENCES: Final = 3
_CHARACTERS: Final = 300  # of one line: a log's line may be a megabyte


def talk(
    summary: str,
    facts: "DiagnoseFacts | None",
    log: str | None,
    problems: Iterable[str],
    kernel: Iterable[str] = (),
) -> str:
    """`summary` says how the command ended, `facts` what its log says, None without a diagnosis.

    log: the path of the log; None if it is not kept. kernel: what the kernel says of that end.
    """
    lines = [f"✗ {summary}", *(f"  {sentence}" for sentence in kernel)]
    if facts is not None:
        lines += _diagnosed(facts, log)
    if log is not None:
        lines.append(f"  log: {log}")
    noted = [f"  note: {problem}" for problem in problems]
    # The notes come last, and give way.
    lines = [*lines, *noted][:MOST_LINES]
    clean = (printable(line).replace("\n", " ") for line in lines)
    return "".join(f"{shortened_words(line, _CHARACTERS)}\n" for line in clean)


def _diagnosed(facts: "DiagnoseFacts", log: str | None) -> list[str]:
    if facts.root_cause is not None:
        return _cause(facts.root_cause, log)
    lines = ["  no line explains it well enough to be called the cause"]
    excerpt = facts.excerpt
    if excerpt is not None:
        place = _place(excerpt.first_line + excerpt.marked, log)
        lines += [f"  begin at {place}", f"  │ {excerpt.lines[excerpt.marked].strip()}"]
    return lines


def _cause(cause: "Cause", log: str | None) -> list[str]:
    sure = percent(round(cause.confidence or 0.0, 2))
    lines = [
        f"  {cause.title}, {sure} sure: {cause.explanation}",
        f"  {_place(cause.place.line, log)}",
        f"  │ {cause.place.text.strip()}",
    ]
    consequences = cause.consequences[:_CONSEQUENCES]
    lines += [f"  so, line {each.line}: {each.text.strip()}" for each in consequences]
    lines.append(f"  try: {cause.remedy} {cause.about_retry}".rstrip())
    if cause.next_command is not None:
        lines.append(f"  run: {cause.next_command}")
    return lines


def _place(line: int | None, log: str | None) -> str:
    if log is None:
        return f"line {line} of the output"
    return f"{log}:{line}"


class Ended(Struct, frozen=True, kw_only=True):
    """A command that has ended.

    is_explained: somebody looked for the cause; diagnosis: what its log says, None if it says
    nothing. log: what it wrote; None if that was not kept. problems: sentences on output that could
    not be handed on or kept, or on a diagnosis that could not be made. kernel: what the kernel says
    of a command that a signal ended.
    """

    end: "CommandEnd"
    is_explained: bool = False
    diagnosis: Outcome | None = None
    log: Path | None = None
    problems: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()


def conclude(request: SupervisionRequest, ended: Ended) -> Supervised:
    """What is reported, and how ci-doctor ends.

    The status is the command's own, unless the request has another one for such a failure: one
    whose cause lies outside the change, so that by the policy of its class another run helps.
    """
    end = ended.end
    status = end.shell_status
    ended_by = end.signal
    diagnosis = None if ended.diagnosis is None else cast("DiagnoseFacts", ended.diagnosis.facts)
    cause = None if diagnosis is None else diagnosis.root_cause
    if request.retry_status is not None and cause is not None and cause.may_be_retried and status:
        status = request.retry_status
        ended_by = None
    summary = f"{request.command[0]}: {describe_status(end.returncode)}"
    outcome = structs.replace(
        request.prepared,
        # A diagnosis judges nothing.
        verdict=None,
        summary=summary,
        # The cause first: whoever reads one finding alone gets it.
        findings=(
            *(() if ended.diagnosis is None else ended.diagnosis.findings),
            *request.prepared.findings,
        ),
        facts=SupervisedRunFacts(
            **structs.asdict(request.prepared.facts),
            command=request.command,
            exit_code=None if end.signal else end.returncode,
            signal=signal_name(end.signal) if end.signal else None,
            log=None if ended.log is None else ended.log.name,
            problems=ended.problems,
            kernel=ended.kernel,
            diagnosis=diagnosis,
        ),
        attachments=()
        if ended.log is None
        else (Attachment(path=ended.log.name, title="what the command wrote"),),
        command_status=status,
    )
    # Nothing after a success, unless output of it is lost.
    text = "".join(f"note: {problem}\n" for problem in end.problems)
    if ended.is_explained:
        log = None if ended.log is None else str(ended.log)
        text = talk(summary, diagnosis, log, ended.problems, ended.kernel)
    return Supervised(outcome=outcome, text=text, signal=ended_by, is_explained=ended.is_explained)


LOG_FILE: Final = "command.log"
_LOG_MODE: Final = 0o644
# A person at the keyboard, or a terminal that is gone, wants no explanation.
_UNEXPLAINED: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGHUP})


def run(
    request: SupervisionRequest,
    redactor: "Redactor",
    companion: Callable[[Path], Companion] | None = None,
    is_named: Callable[[], bool] = lambda: False,
) -> Supervised:
    """Run the command to its end; its status is in the outcome.

    Its log is `command.log` in the directory, without secrets. `companion` makes of the path of the
    log who watches the command; `is_named` says after its end whether that one has named a cause. Raises CommandRefusedError if the
    system does not run the command, UsageError if the log cannot be written, and OSError if the
    machine lacks what is needed.
    """
    if request.directory is not None:
        return _run_with_log(request, redactor, request.directory / LOG_FILE, companion, is_named)
    with own_directory() as directory:
        path = Path(directory) / LOG_FILE
        return _run_with_log(request, redactor, path, companion, is_named)


def _run_with_log(
    request: SupervisionRequest,
    redactor: "Redactor",
    path: Path,
    companion: Callable[[Path], Companion] | None,
    is_named: Callable[[], bool],
) -> Supervised:
    log = _open_log(path, request.log_limit)
    before = MemoryEvents.read()
    # What is full only later, the command itself may have filled.
    full = full_disks()
    try:
        beside = None if companion is None else companion(path)
        end = relay(request.command, request.environ, log, beside)
    except BaseException:
        log.close()
        path.unlink(missing_ok=True)
        raise
    quiet_s = clock.now() - log.last_at
    # Short work that must be whole: without it the log would keep its middle, or its secrets.
    with signals_noted():
        problems = [*end.problems, log.finish()]
    diagnosis = None
    is_explained = _wants_explanation(end)
    # An empty log has nothing to add to a cause that is named.
    if is_explained and not (_is_empty(path) and is_named()):
        answer = find_cause(path, request.rules, end.returncode, quiet_s, full)
        if isinstance(answer, str):
            problems.append(answer)
        else:
            diagnosis = answer
    if request.directory is not None:
        with signals_noted():
            problems += _publish(path, redactor)
    # A shell says 128+N of its command.
    is_killed = end.shell_status == 128 + signal.SIGKILL
    # The command may have removed it.
    kept = request.directory is not None and path.exists()
    ended = Ended(
        end=end,
        is_explained=is_explained,
        diagnosis=diagnosis,
        log=path if kept else None,
        problems=tuple(filter(None, problems)),
        kernel=(counted(before, MemoryEvents.read()),) if is_explained and is_killed else (),
    )
    return conclude(request, ended)


def _open_log(path: Path, limit: int) -> CommandLog:
    try:
        return CommandLog(path, limit)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}", hint="name another --report-dir"
        ) from error


def _wants_explanation(end: CommandEnd) -> bool:
    if not end.returncode or end.request in _UNEXPLAINED:
        return False
    # `| head` has read enough.
    return not (end.reader_left and end.returncode in {-signal.SIGPIPE, 128 + signal.SIGPIPE})


def find_cause(
    log: Path,
    rules: Sequence[Path],
    status: int,
    quiet_s: float = 0.0,
    full: Sequence[Path] | None = None,
) -> Outcome | str:
    """The diagnosis of `log`, whose command ended with `status`, or why there is none.

    quiet_s: from the last that the command wrote to its end. What ends a command does so at once.
    full: where disks were full before the command; None if nobody looked.
    What goes wrong here changes no exit code, and a signal gives it up: the command that it was for
    has ended.
    """
    # A command that succeeds needs none of this.
    from ci_doctor.diagnosis.diagnosis import diagnose, load_rules, outcome_of
    from ci_doctor.diagnosis.outside import AT_ONCE_S, as_seen_here, judged

    try:
        if _is_empty(log):
            return "no diagnosis: the command wrote nothing"
        diagnosis = diagnose([str(log)], load_rules(tuple(rules)), status=status)
        for reason in diagnosis.unreadable.values():
            return f"no diagnosis: the log cannot be read: {reason}"
        cause = as_seen_here(diagnosis.cause, full)
        if cause is not None and quiet_s > AT_ONCE_S:
            cause = judged(cause, is_outside=cause.is_outside, is_final=False)
        return outcome_of(structs.replace(diagnosis, cause=cause))
    except (KeyboardInterrupt, Terminated):
        return "the diagnosis was interrupted"
    except CiDoctorError as error:
        return f"no diagnosis: {error.message}"
    except Exception as error:  # noqa: BLE001 - the command's own status must come through
        return f"no diagnosis: {type(error).__name__}: {error}"


def _is_empty(log: Path) -> bool:
    """Whether the log is there and holds nothing. Raises OSError."""
    return log.is_file() and log.stat().st_size == 0


def _publish(path: Path, redactor: "Redactor") -> tuple[str, ...]:
    """Take the secrets out of the log, for everybody to read; sentences on what went wrong."""
    from ci_doctor.system.secrets.redaction import redact_files

    try:
        warnings = redact_files([path], redactor)
        if path.exists():
            path.chmod(_LOG_MODE)
    except OSError as error:
        return (f"{path}: {error.strerror or error}",)
    return warnings
