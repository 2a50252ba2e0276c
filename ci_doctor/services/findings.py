# SPDX-License-Identifier: Apache-2.0
"""What happened to services as findings, with the root line of each log marked. Pure."""

import shlex
from collections.abc import Iterator, Sequence

from ci_doctor.diagnosis.root_lines import marked
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.services.outcome import FailureKind, NamedProcess, ServiceFailure, StopResult

# As many lines as every renderer shows of one excerpt.
_SHOWN = 10
_NAMED = 3


def finding_of(failure: ServiceFailure, severity: Severity = Severity.ERROR) -> Finding:
    """The failure of one service: its log's root lines (`> ` before the root), what followed."""
    return Finding(
        rule=f"services/{_what(failure)}",
        severity=severity,
        summary=failure.message,
        evidence=tuple(_evidence(failure)),
        remedy=_remedy(failure),
    )


def _what(failure: ServiceFailure) -> str:
    if failure.oom:
        return "oom-killed"
    if failure.kind is FailureKind.OUTSIDE:
        return "outside"
    if failure.kind is FailureKind.NOT_READY:
        return "not-ready"
    if failure.fatal is not None:
        return "fatal-line"
    if failure.descendant is not None:
        return "descendant-died"
    return "died"


def _evidence(failure: ServiceFailure) -> Iterator[Evidence]:
    if failure.log is not None:
        excerpt = marked(failure.tail, failure.tail_root, _SHOWN)
        yield Evidence(
            file=failure.log,
            line=failure.tail_line,
            end_line=failure.tail_end_line,
            excerpt="\n".join(excerpt) or "(it wrote nothing)",
        )
    if failure.peak_rss is not None:
        yield Evidence(excerpt=f"peak memory {memory(failure.peak_rss)}")
    if failure.consequences:
        lines = [f"  {sentence}" for sentence in failure.consequences]
        yield Evidence(excerpt="\n".join(["then", *lines]))


def memory(count: int) -> str:
    """Bytes in the units of memory: `812 KiB`, `340 MiB`, `1.2 GiB`."""
    if count < 1 << 20:
        return f"{count / (1 << 10):.0f} KiB"
    if count < 1 << 30:
        return f"{count / (1 << 20):.0f} MiB"
    return f"{count / (1 << 30):.1f} GiB"


def _remedy(failure: ServiceFailure) -> str:
    if failure.oom:
        return "raise the memory limit of the step, or lower what the service takes"
    if failure.kind is FailureKind.OUTSIDE:
        return "free what is named, or retry on another machine"
    if failure.log is None:
        return "see why it could not be started"
    log = shlex.quote(failure.log)
    if failure.kind is FailureKind.NOT_READY:
        return (
            f"see whether it still made progress (`tail {log}`) before you raise `start_timeout` "
            "or `--timeout`"
        )
    if failure.tail_line is None:
        return f"less {log}"
    return f"less +{failure.tail_line} {log}"


def stop_findings(result: StopResult) -> Iterator[Finding]:
    """What stopping a group has brought to light; none of it changes a verdict."""
    if result.survivors:
        pids = ",".join(str(process.pid) for process in result.survivors)
        yield Finding(
            rule="services/survivor",
            severity=Severity.WARNING,
            summary=f"not even SIGKILL has ended {_named(result.survivors)}",
            remedy=f"ps -o pid,user,stat,wchan,args -p {pids}",
        )
    for sentence in result.not_released:
        yield Finding(
            rule="services/not-released",
            severity=Severity.WARNING,
            summary=sentence,
            remedy="find who holds it, or raise `release_timeout`",
        )
    for sentence in result.problems:
        yield Finding(
            rule="services/stop-failed",
            severity=Severity.WARNING,
            summary=sentence,
            remedy="see whether what should have stopped still runs",
        )
    if result.killed:
        yield Finding(
            rule="services/killed",
            severity=Severity.NOTE,
            summary=f"{_named(result.killed)} ignored every request to end and needed SIGKILL",
            remedy="let the server end on SIGTERM, or a real deployment will lose what it holds",
        )
    for sentence in result.cut_logs:
        yield Finding(
            rule="services/log-cut",
            severity=Severity.NOTE,
            summary=sentence,
            remedy="raise `log_limit` for that service, or make it write less",
        )


def _named(processes: Sequence[NamedProcess]) -> str:
    """`python (pid 12), worker (pid 14) and 3 more`."""
    names = [f"{process.name} (pid {process.pid})" for process in processes[:_NAMED]]
    text = ", ".join(names)
    if len(processes) > _NAMED:
        text += f" and {len(processes) - _NAMED} more"
    return text
