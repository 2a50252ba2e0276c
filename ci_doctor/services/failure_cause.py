# SPDX-License-Identifier: Apache-2.0
"""Reads logs and ports: turns the end of a service into a failure with its cause."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from stat import S_IMODE
from typing import Any

from msgspec import structs

from ci_doctor.diagnosis.log_end import LogEnd, cause_among, read_log_end
from ci_doctor.diagnosis.outside import AT_ONCE_S, is_disk_full, judged
from ci_doctor.model.cause import Cause, FailureClass, for_record
from ci_doctor.model.facts.launch import FailureKind, NamedProcess, ServiceFailure
from ci_doctor.render.formatting import duration
from ci_doctor.services.instance import Death, Instance, Subject
from ci_doctor.services.liveness import Hang
from ci_doctor.services.logs import is_out_of_space
from ci_doctor.services.ports import PortOwner, is_local, listens, owner_of
from ci_doctor.services.ready import ReadinessProbe
from ci_doctor.services.spec import misuse_of
from ci_doctor.system import clock
from ci_doctor.system.processes.process_table import Kin, look_up
from ci_doctor.system.processes.tree import living_in_use

# `port: 8000`, `127.0.0.1:8000`, `('127.0.0.1', 8000)`; not the start of a version or an address.
_PORT = re.compile(r"(?:\bport[ =:]+|[\w\])'*:]:|', )(\d{2,5})\b(?!\.\d)", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w:/.])/[\w@+~-][\w./@+~-]*[\w@+~-]")
# A shell says 128+N of a command that the signal N ended.
_OF_SIGNALS = 128
_FULL = "; no space is left on the disk of its log"


# What returns the processes of a service that have not ended.
Living = Callable[[], Iterable[Kin]]


def died(subject: Subject, death: Death, living: Living, *, is_ours: bool = True) -> ServiceFailure:
    """The service's own process ended; if it is not ours, anybody may have killed it."""
    end = _log_end(subject)
    if end.cause is not None and not _may_end_by_its_log(death, subject):
        cause = judged(end.cause, is_outside=end.cause.is_outside, is_final=False)
        end = structs.replace(end, cause=cause)
    outside, reason = _reason(end, subject, living)
    # The kernel is certain, a log less so, and the meaning of an exit code is only usual.
    usual = _meaning(death.returncode) if is_ours else ""
    refused = _refused(death) or _cut(subject) or _closed(end, subject)
    clause = _oom(death) or reason or refused or usual
    # A command that was ready has run, as it is written.
    misuse = None if subject.was_ready else misuse_of(death.exit_code, end.excerpt.lines)
    kind = FailureKind.DIED
    # Memory of the job's own is no fault of the machine, whatever the log claims.
    if _was_taken_by_others(death, living) or (outside and not death.oom):
        kind = FailureKind.OUTSIDE
    return ServiceFailure(
        kind=kind,
        message=f"{subject.name} died {_when(subject)}: {death.words()}{clause}",
        misuse=None if misuse is None else misuse.line,
        misused=None if misuse is None else misuse.about,
        **_end_of(death),
        **_root_of(subject, end),
    )


def _when(subject: Subject) -> str:
    if subject.when:
        return subject.when
    age = f"{duration(subject.duration_s)} after its start"
    if subject.was_ready:
        return f"{age}, while it was in use"
    return f"{age}, before it was ready"


def descendant_died(
    subject: Subject, process: NamedProcess, death: Death, successor: NamedProcess | None = None
) -> ServiceFailure:
    """A process below the service was ended, and the service lives on without it, or with its `successor`."""
    age = duration(subject.duration_s)
    after = "" if successor is None else f" with a new {successor.name} (pid {successor.pid})"
    # Never outside: nobody knows how much memory it had, and the kernel kills the largest first.
    return ServiceFailure(
        kind=FailureKind.DIED,
        message=(
            f"{subject.name} lost its process {process.name} (pid {process.pid}) {age} after its "
            f"start: {death.words()}{_oom(death) or _refused(death)}; {subject.name} itself (pid {subject.pid}) "
            f"lived on{after}"
        ),
        descendant=process,
        successor=successor,
        **_end_of(death),
        **_root_of(subject, _log_end(subject)),
    )


def wrote_fatal_line(subject: Subject, line: str) -> ServiceFailure:
    """The log holds a line that the service's `fatal` names, and the process did not end soon."""
    age = duration(subject.duration_s)
    return ServiceFailure(
        kind=FailureKind.DIED,
        message=f"{subject.name} wrote a fatal line {age} after its start, and lived on: {line}",
        fatal=line,
        **_root_of(subject, _log_end(subject, fatal=line)),
    )


def hung(subject: Subject, hang: Hang) -> ServiceFailure:
    """The service was ready, and neither answers nor does anything any more."""
    age = duration(subject.duration_s)
    times = "once" if hang.failures == 1 else f"{hang.failures} times in a row"
    stopped = ", ".join(f"{process.name} (pid {process.pid})" for process in hang.stopped)
    idle = "it used no CPU to speak of, wrote nothing"
    nobody = " and answered nobody" if hang.is_traffic_known else ""
    if stopped:
        idle, nobody = f"{stopped} was stopped (SIGSTOP)", nobody.replace(" and", ", and it")
    return ServiceFailure(
        kind=FailureKind.DIED,
        message=(
            f"{subject.name} hangs {age} after its start: its liveness probe failed {times} "
            f"({hang.answer}), and in these {duration(hang.length_s)} "
            f"{idle}{nobody}"
        ),
        processes=hang.processes,
        **_root_of(subject, _log_end(subject)),
    )


def went_to_background(subject: Subject, pids: tuple[int, ...]) -> ServiceFailure:
    """The process ended with 0 and left others running, and nothing tells which one to watch."""
    age = duration(subject.duration_s)
    left = ", ".join(map(str, pids[:5]))
    return ServiceFailure(
        kind=FailureKind.DIED,
        message=(
            f"{subject.name} went into the background {age} after its start: it ended with exit "
            f"code 0 and left pid {left} running; keep it in the foreground, or name its pidfile"
        ),
        exit_code=0,
        **_root_of(subject, _log_end(subject)),
    )


def not_ready(subject: Subject, answer: str, limits: Death | None = None) -> ServiceFailure:
    """The process lives, and `answer` is what was wrong when its probe was made last.

    `limits` is what the kernel counts of its cgroup's limits.
    """
    kind = FailureKind.NOT_READY
    if limits is not None:
        answer += _refused(limits)
    process = look_up(subject.pid)
    # `T` is stopped (proc_pid_stat(5)): it would not have become ready however long we waited.
    if process is not None and process.state == "T":
        answer += "; its process is stopped (SIGSTOP)"
    if _is_log_full(subject):
        answer += _FULL
        kind = FailureKind.OUTSIDE
    age = duration(subject.duration_s)
    return ServiceFailure(
        kind=kind,
        message=f"{subject.name} was not ready within {age}: {answer}",
        **_root_of(subject, _log_end(subject)),
    )


def answered_by_another(subject: Subject, owner: PortOwner) -> ServiceFailure:
    """The probe was answered, but by a process that was there before the service."""
    message = f"another process answers in place of {subject.name}: {owner.describe()}"
    return structs.replace(_outside(subject, message), is_of_job=owner.is_of_job)


def liveness_unknown(subject: Subject, why: str) -> ServiceFailure:
    """Nobody can tell any more whether the service hangs: its liveness probe cannot be made."""
    return _outside(subject, f"{subject.name} is watched no more, its liveness probe failed: {why}")


def _outside(subject: Subject, message: str) -> ServiceFailure:
    return ServiceFailure(
        kind=FailureKind.OUTSIDE,
        service=subject.name,
        at=subject.at,
        pid=subject.pid,
        message=message,
        log=None if subject.log is None else str(subject.log),
        duration_s=subject.duration_s,
    )


def never_started(name: str, kind: FailureKind, why: str) -> ServiceFailure:
    """The process was not even started."""
    return ServiceFailure(
        kind=kind,
        service=name,
        at=clock.now(),
        message=f"{name} was not started: {why}",
        duration_s=0.0,
    )


def port_taken(name: str, owner: PortOwner) -> ServiceFailure:
    """The process was not even started, because `owner` listens on its port."""
    failure = never_started(name, FailureKind.OUTSIDE, owner.describe())
    return structs.replace(failure, is_of_job=owner.is_of_job)


def older_listener(probe: ReadinessProbe, pid: int, living: Living) -> PortOwner | None:
    """The process that listens where `probe` asks, if it cannot belong to the service `pid`.

    None if a `living` process of the group listens there, or if the listener is younger than `pid`. This is the
    rule for a service that ci-doctor started: `ExternalWatch` also reports
    a younger listener.
    """
    for owner in foreign_listeners(probe, lambda: [kin.pid for kin in living()]):
        # A younger one may be a container that the service started.
        other, service = look_up(owner.pid or 0), look_up(pid)
        if other is not None and service is not None and other.started < service.started:
            return owner
    return None


def foreign_listeners(
    probe: ReadinessProbe, own: Callable[[], Iterable[int]]
) -> Iterator[PortOwner]:
    """Who listens where only the service itself may answer `probe`, and is known and not `own`."""
    for part in probe.own():
        place = part.socket or part.port
        if part.socket is None and not is_local(part.host):
            continue
        # Ours first: with SO_REUSEPORT several processes may listen on one port (socket(7)).
        if not listens(own(), place):
            owner = owner_of(place)
            if owner is not None and owner.pid is not None:
                yield owner


def lived(subject: Subject, before: int) -> ServiceFailure | None:
    """A line that the log of a living service has beyond its first `before` bytes, and that may be why its client failed.

    None if there is none. It proves nothing, so no cause is named.
    """
    excerpt = _log_end(subject).excerpt
    if subject.log is None or excerpt.line is None or excerpt.root is None:
        return None
    with subject.log.open("rb") as file:
        if excerpt.line + excerpt.root <= file.read(before).count(b"\n"):
            return None
    return ServiceFailure(
        kind=FailureKind.DIED,
        message=f"{subject.name} lived, and wrote meanwhile",
        **{**_root_of(subject, LogEnd(excerpt=excerpt)), "cause": None},
    )


def _log_end(subject: Subject, fatal: str | None = None) -> LogEnd:
    """What the log says."""
    return LogEnd() if subject.log is None else read_log_end(subject.log, fatal=fatal)


def _is_log_full(subject: Subject) -> bool:
    return subject.log is not None and is_out_of_space(subject.log)


def _end_of(death: Death) -> dict[str, Any]:
    """The fields of a failure that tell how a process ended."""
    return {
        "exit_code": death.exit_code,
        "signal": death.signal,
        "exit_unknown": death.returncode is None,
        "peak_rss": death.peak_rss,
        "oom": death.oom,
    }


def _root_of(subject: Subject, end: LogEnd) -> dict[str, Any]:
    """The fields of a failure that tell which service failed and what its log holds."""
    excerpt = end.excerpt
    return {
        "service": subject.name,
        "at": subject.at,
        "pid": subject.pid,
        "log": None if subject.log is None else str(subject.log),
        "tail": excerpt.lines,
        "tail_root": excerpt.root,
        "tail_line": excerpt.line,
        "tail_end_line": excerpt.end_line,
        "cause": None if end.cause is None else for_record(end.cause),
        "was_ready": subject.was_ready,
        "duration_s": subject.duration_s,
    }


def _oom(death: Death) -> str:
    return f"; the kernel killed it because {death.oom} ran out of memory" if death.oom else ""


def _refused(death: Death) -> str:
    if death.task_limit is None:
        return ""
    return (
        "; before, the kernel refused a process or thread: its cgroup has a limit of "
        f"{death.task_limit} (pids.max, or --pids-limit of a container)"
    )


def _was_taken_by_others(death: Death, living: Living) -> bool:
    """Whether the machine ran out of memory, and the service's own processes had less than half."""
    if not death.host_oom or death.peak_rss is None:
        return False
    # Late: a machine runs out of memory seldom, and the import takes tens of milliseconds.
    import psutil

    own = death.peak_rss
    # A start beside this one is ours too.
    for pid in {kin.pid for kin in (*living(), *living_in_use())}:
        with contextlib.suppress(psutil.Error):
            own += psutil.Process(pid).memory_info().rss
    return own < psutil.virtual_memory().total / 2


def _reason(end: LogEnd, subject: Subject, living: Living) -> tuple[bool, str]:
    """Whether the cause lies outside the change, and the clause that names it."""
    cause = end.cause
    # The machine is certain, a log only claims.
    if _is_log_full(subject):
        return True, _FULL
    # A server that went on after such a line may have died of a mistake in the change.
    if cause is None or not cause.is_final:
        return False, ""
    clause = f"; by its log {cause.sentence}"
    # That a port is taken lies outside only if no process of the job has it.
    if cause.class_ == FailureClass.PORT_IN_USE:
        owner = _external_owner(cause, subject, living)
        if owner is None:
            return False, clause
        return not owner.is_of_job, f"; {owner.describe()}"
    if not cause.may_be_retried:
        return False, ""
    # Its words prove it only on a machine whose disk is full.
    return cause.class_ != FailureClass.DISK or is_disk_full(cause), clause


def _may_end_by_its_log(death: Death, subject: Subject) -> bool:
    """Whether a service may have ended by the last line of its log: by itself, not well, and at once.

    A signal, or a shell's 128+N for one, is another end. A server that was ready after the line lived on.
    """
    code = death.returncode
    if code is not None and not 0 < code <= _OF_SIGNALS:
        return False
    # Nobody knows when it ended.
    if subject.log is None or subject.when is not None:
        return True
    try:
        written = subject.log.stat().st_mtime
    except OSError:
        return False
    # From monotonic seconds to those of the file's time.
    since = clock.epoch() - clock.now()
    if subject.ready_at is not None and written < since + subject.ready_at:
        return False
    return since + subject.at - written <= AT_ONCE_S


def _external_owner(cause: Cause, subject: Subject, living: Living) -> PortOwner | None:
    """The external process on the port that a log calls taken; None if there is none."""
    named = _PORT.search(cause.place.text)
    port = subject.port if named is None else int(named[1])
    try:
        owner = owner_of(port)
        own = {kin.pid for kin in living()}
    except OSError:  # no file descriptor is left to look with
        return None
    # A server that binds its own port twice writes the same line.
    return None if owner is None or owner.pid in own else owner


def _cut(subject: Subject) -> str:
    """The clause on a log that is as long as the service may write a file: its last words are missing."""
    most = subject.allowed.file_bytes
    if most is None or subject.log is None:
        return ""
    with contextlib.suppress(OSError):
        if subject.log.stat().st_size >= most:
            return f"; it may write no file beyond {most} bytes (ulimit -f), and so long is its log"
    return ""


def _closed(end: LogEnd, subject: Subject) -> str:
    """The clause on a path in the line of the cause that the service's user may not open, whatever the line makes of that."""
    user = subject.allowed.user
    if end.cause is None or not user:
        return ""
    for named in _PATH.findall(end.cause.place.text):
        path = Path(named)
        for part in (*reversed(path.parents), path):
            try:
                status = part.stat()
            except OSError:
                break
            bits = 0o1 if part != path else 0o5 if part.is_dir() else 0o4
            # Who is in its group nobody knows.
            shift = (6,) if status.st_uid == user else (3, 0)
            if all(status.st_mode >> each & bits != bits for each in shift):
                mode = f"{S_IMODE(status.st_mode):04o}"
                return f"; {part} is of user {status.st_uid} with mode {mode}, and {subject.name} ran as user {user}"
    return ""


def _meaning(returncode: int | None) -> str:
    match returncode:
        case 0:
            return "; a server must stay in the foreground and run until it is stopped"
        case -9:
            return "; ci-doctor did not send that, the kernel does when memory runs out"
        case _:
            return ""


def with_cause_elsewhere(failure: ServiceFailure, group: Iterable[Instance]) -> ServiceFailure:
    """`failure`, with the cause that another log of its group names, if one does.

    The failure stays that of its service, because the machine is certain of it: the other log is
    evidence. A failure outside the change stays as it is: its cause is certain enough.
    """
    paths = [instance.service.log for instance in group]
    if failure.kind is FailureKind.OUTSIDE or len(paths) < 2:
        return failure
    cause = cause_among(paths)
    if cause is None or cause.place.file == failure.log:
        return failure
    return structs.replace(failure, elsewhere=for_record(cause))
