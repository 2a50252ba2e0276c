# SPDX-License-Identifier: Apache-2.0
"""Acts by reading only: turns the end of a service into a failure that says what its log and the ports say."""

from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from ci_doctor.diagnosis.root_lines import Excerpt, outside_cause
from ci_doctor.services.logs.files import is_out_of_space, read_root_lines
from ci_doctor.services.outcome import FailureKind, NamedProcess, ServiceFailure
from ci_doctor.services.ports import PortOwner, is_local, listens, owner_of
from ci_doctor.services.probes.ready import ReadinessProbe
from ci_doctor.system import clock
from ci_doctor.system.processes.process import describe_exit, signal_name
from ci_doctor.system.processes.process_table import Kin, look_up

_FULL = "; no space is left on the disk of its log"


class Tree(Protocol):
    """The processes of a service: those that we have started, or those of one that we have not."""

    def living(self) -> tuple[Kin, ...]:
        """Those that live."""


class Subject(Struct, frozen=True, kw_only=True):
    """The service that a failure is about; `at` is monotonic seconds, `duration_s` its age.

    `when` says in words when it died, where its age does not tell that.
    """

    name: str
    pid: int
    port: int
    log: Path
    was_ready: bool
    at: float
    duration_s: float
    when: str | None = None


class Death(Struct, frozen=True, kw_only=True):
    """How a process ended: `returncode` as subprocess has it, None where nobody can say; `peak_rss` in bytes.

    `oom` says whose memory ran out, where the kernel killed for lack of it; `host_oom` that it was the machine's.
    """

    returncode: int | None
    peak_rss: int | None = None
    oom: str | None = None
    host_oom: bool = False

    def words(self) -> str:
        """`exit code 3`, `killed by SIGKILL (9)`."""
        return (
            "its exit code is unknown"
            if self.returncode is None
            else describe_exit(self.returncode)
        )


def died(subject: Subject, death: Death, tree: Tree) -> ServiceFailure:
    """The service's own process ended."""
    excerpt, counted = read_root_lines(subject.log)
    outside, reason = _reason(excerpt.lines, subject, tree)
    when = "while it was in use" if subject.was_ready else "before it was ready"
    when = subject.when or f"{_seconds(subject.duration_s)} after its start, {when}"
    message = f"{subject.name} died {when}: {death.words()}"
    return ServiceFailure(
        kind=FailureKind.OUTSIDE if outside or death.host_oom else FailureKind.DIED,
        message=message + (_oom(death) or reason or _meaning(death.returncode)),
        **_ending(death),
        **_told(subject, excerpt, counted=counted),
    )


def descendant_died(subject: Subject, process: NamedProcess, death: Death) -> ServiceFailure:
    """A process below the service was ended, and the service lives on without it."""
    excerpt, counted = read_root_lines(subject.log)
    message = (
        f"{subject.name} lost its process {process.name} (pid {process.pid}) {_seconds(subject.duration_s)} after its "
        f"start: {death.words()}{_oom(death)}; {subject.name} itself (pid {subject.pid}) lived on"
    )
    return ServiceFailure(
        kind=FailureKind.OUTSIDE if death.host_oom else FailureKind.DIED,
        message=message,
        descendant=process,
        **_ending(death),
        **_told(subject, excerpt, counted=counted),
    )


def said_fatal(subject: Subject, line: str) -> ServiceFailure:
    """The log holds a line that the service's `fatal` names, and the process did not end by itself soon after."""
    excerpt, counted = read_root_lines(subject.log)
    return ServiceFailure(
        kind=FailureKind.DIED,
        message=f"{subject.name} wrote a fatal line {_seconds(subject.duration_s)} after its start, and lived on: {line}",
        fatal=line,
        **_told(subject, excerpt, counted=counted),
    )


def went_to_background(subject: Subject, pids: tuple[int, ...]) -> ServiceFailure:
    """The process ended with 0 and left others running, and nothing says which of them to watch."""
    excerpt, counted = read_root_lines(subject.log)
    left = ", ".join(map(str, pids[:5]))
    return ServiceFailure(
        kind=FailureKind.DIED,
        message=f"{subject.name} went into the background {_seconds(subject.duration_s)} after its start: it ended with "
        f"exit code 0 and left pid {left} running; keep it in the foreground, or name its pidfile",
        exit_code=0,
        **_told(subject, excerpt, counted=counted),
    )


def _ending(death: Death) -> dict[str, Any]:
    code = death.returncode
    return {
        "exit_code": code if code is not None and code >= 0 else None,
        "signal": signal_name(-code) if code is not None and code < 0 else None,
        "peak_rss": death.peak_rss,
        "oom": death.oom,
    }


def _told(subject: Subject, excerpt: Excerpt, *, counted: bool) -> dict[str, Any]:
    return {
        "service": subject.name,
        "at": subject.at,
        "pid": subject.pid,
        "log": str(subject.log),
        "tail": excerpt.lines,
        "tail_line": excerpt.line if counted and excerpt.lines else None,
        "tail_end_line": excerpt.end_line if counted and excerpt.lines else None,
        "was_ready": subject.was_ready,
        "duration_s": subject.duration_s,
    }


def _oom(death: Death) -> str:
    return f"; the kernel killed it because {death.oom} ran out of memory" if death.oom else ""


def not_ready(subject: Subject, seen: str) -> ServiceFailure:
    """The process lives and its probe has `seen` anything but a good answer until time was up."""
    excerpt, counted = read_root_lines(subject.log)
    full, process = is_out_of_space(subject.log), look_up(subject.pid)
    seen += (
        "; its process is stopped (SIGSTOP)" if process is not None and process.state == "T" else ""
    )
    return ServiceFailure(
        kind=FailureKind.OUTSIDE if full else FailureKind.NOT_READY,
        message=f"{subject.name} was not ready within {_seconds(subject.duration_s)}: {seen}{_FULL if full else ''}",
        **_told(subject, excerpt, counted=counted),
    )


def answered_by_another(subject: Subject, owner: PortOwner) -> ServiceFailure:
    """The probe was answered, but by a process that was there before the service."""
    return ServiceFailure(
        kind=FailureKind.OUTSIDE,
        service=subject.name,
        at=subject.at,
        pid=subject.pid,
        message=f"another process answers in place of {subject.name}: {owner.describe()}",
        log=str(subject.log),
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


def impostor(probe: ReadinessProbe, pid: int, tree: Tree) -> PortOwner | None:
    """The process that answers on `probe` though it is not ours and older than ours (`pid`); None where unknown."""
    if (
        not probe.is_network
        or not is_local(probe.host)
        or listens([kin.pid for kin in tree.living()], probe.port)
    ):
        return None
    owner, service = owner_of(probe.port), look_up(pid)
    if owner is None or owner.pid is None or service is None:
        return None
    other = look_up(owner.pid)
    # A younger one may serve for ours: a container that ours has asked a daemon to start.
    return owner if other is not None and other.started < service.started else None


def _reason(lines: tuple[str, ...], subject: Subject, tree: Tree) -> tuple[bool, str]:
    """Whether the cause lies outside, and the clause that says it."""
    cause = outside_cause(lines)
    if cause is None:
        return (True, _FULL) if is_out_of_space(subject.log) else (False, "")
    if not cause.about_port:
        return True, f"; by its log {cause.reason}"
    # A server that binds its own port twice says the same: only a stranger on the port is an outside cause.
    try:
        owner = owner_of(cause.port or subject.port)
        ours = owner is None or owner.pid in {kin.pid for kin in tree.living()}
    except OSError:  # no file descriptor is left to look with
        owner, ours = None, True
    return (
        (False, f"; by its log {cause.reason}")
        if ours or owner is None
        else (True, f"; {owner.describe()}")
    )


def _meaning(returncode: int | None) -> str:
    match returncode:
        case 0:
            return "; a server must stay in the foreground and run until it is stopped"
        case -9:
            return "; ci-doctor did not send that, the kernel does when memory runs out"
        case _:
            return ""


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.1f} s" if duration_s >= 0.1 else f"{duration_s * 1000:.0f} ms"
