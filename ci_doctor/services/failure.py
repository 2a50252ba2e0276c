# SPDX-License-Identifier: Apache-2.0
"""Acts by reading only: turns the end of a service into a failure that says what its log and the ports say."""

from pathlib import Path

from msgspec import Struct

from ci_doctor.services.logs import read_root_lines
from ci_doctor.services.outcome import FailureKind, ServiceFailure
from ci_doctor.services.ports import PortOwner, is_local, listens, owner_of
from ci_doctor.services.roots import outside_cause
from ci_doctor.services.spec import Target
from ci_doctor.system.process import describe_exit, signal_name
from ci_doctor.system.process_table import look_up
from ci_doctor.system.tree import OwnTree


class Subject(Struct, frozen=True, kw_only=True):
    """The service that a failure is about; `duration_s` is its age."""

    name: str
    pid: int
    port: int
    log: Path
    was_ready: bool
    duration_s: float


def died(subject: Subject, returncode: int, tree: OwnTree) -> ServiceFailure:
    """The process ended: `returncode` as subprocess has it, negative for a signal."""
    excerpt, counted = read_root_lines(subject.log)
    outside, reason = _reason(excerpt.lines, subject.port, tree)
    when = "while it was in use" if subject.was_ready else "before it was ready"
    message = f"{subject.name} died {_seconds(subject.duration_s)} after its start, {when}: {describe_exit(returncode)}"
    return ServiceFailure(
        kind=FailureKind.OUTSIDE if outside else FailureKind.DIED,
        service=subject.name,
        message=message + (reason or _meaning(returncode)),
        exit_code=returncode if returncode >= 0 else None,
        signal=signal_name(-returncode) if returncode < 0 else None,
        log=str(subject.log),
        tail=excerpt.lines,
        tail_line=excerpt.line if counted and excerpt.lines else None,
        tail_end_line=excerpt.end_line if counted and excerpt.lines else None,
        was_ready=subject.was_ready,
        duration_s=subject.duration_s,
    )


def not_ready(subject: Subject, seen: str) -> ServiceFailure:
    """The process lives and its probe has `seen` anything but a good answer until time was up."""
    excerpt, counted = read_root_lines(subject.log)
    return ServiceFailure(
        kind=FailureKind.NOT_READY,
        service=subject.name,
        message=f"{subject.name} was not ready within {_seconds(subject.duration_s)}: {seen}",
        log=str(subject.log),
        tail=excerpt.lines,
        tail_line=excerpt.line if counted and excerpt.lines else None,
        tail_end_line=excerpt.end_line if counted and excerpt.lines else None,
        duration_s=subject.duration_s,
    )


def answered_by_another(subject: Subject, owner: PortOwner) -> ServiceFailure:
    """The probe was answered, but by a process that was there before the service."""
    return ServiceFailure(
        kind=FailureKind.OUTSIDE,
        service=subject.name,
        message=f"another process answers in place of {subject.name}: {owner.describe()}",
        log=str(subject.log),
        duration_s=subject.duration_s,
    )


def never_started(name: str, kind: FailureKind, why: str) -> ServiceFailure:
    """The process was not even started."""
    return ServiceFailure(kind=kind, service=name, message=f"{name} was not started: {why}", duration_s=0.0)


def impostor(target: Target, pid: int, tree: OwnTree) -> PortOwner | None:
    """The process that answers on `target` though it is not ours and older than ours (`pid`); None where unknown."""
    if not is_local(target.host) or listens([kin.pid for kin in tree.living()], target.port):
        return None
    owner, service = owner_of(target.port), look_up(pid)
    if owner is None or owner.pid is None or service is None:
        return None
    other = look_up(owner.pid)
    # A younger one may serve for ours: a container that ours has asked a daemon to start.
    return owner if other is not None and other.started < service.started else None


def _reason(lines: tuple[str, ...], own_port: int, tree: OwnTree) -> tuple[bool, str]:
    """Whether the cause lies outside, and the clause that says it."""
    cause = outside_cause(lines)
    if cause is None:
        return False, ""
    if not cause.about_port:
        return True, f"; by its log {cause.reason}"
    # A server that binds its own port twice says the same: only a stranger on the port is an outside cause.
    owner = owner_of(cause.port or own_port)
    ours = owner is None or owner.pid in {kin.pid for kin in tree.living()}
    return (False, f"; by its log {cause.reason}") if ours or owner is None else (True, f"; {owner.describe()}")


def _meaning(returncode: int) -> str:
    match returncode:
        case 0:
            return "; a server must stay in the foreground and run until it is stopped"
        case -9:
            return "; ci-doctor did not send that, the kernel does when memory runs out"
        case _:
            return ""


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.1f} s" if duration_s >= 0.1 else f"{duration_s * 1000:.0f} ms"
