# SPDX-License-Identifier: Apache-2.0
"""Pure. What happened to services as findings, beside their rules, with the root line of each log marked."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.diagnosis.log_text import marked
from ci_doctor.model.cause import Cause, about_retry
from ci_doctor.model.facts.launch import (
    FailureKind,
    LeftBehind,
    LeftThing,
    NamedProcess,
    ServiceFailure,
    StopResult,
)
from ci_doctor.model.outcome import (
    Evidence,
    Finding,
    NextStep,
    Rule,
    Severity,
    ShellCommand,
    Table,
    row,
)
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import size
from ci_doctor.system.files.access import is_own_name

EXPLAIN: Final = "ci-doctor explain import-race"
# The texts of CPython 3.8 to 3.14: `import_from` and `module_getattro` in C, `_ModuleLock.acquire`.
_SIGNS: Final = (
    re.compile(
        r"cannot import name '(?P<name>\w+)' from "
        r"(?P<partial>partially initialized module )?'(?P<module>[\w.]+)'"
    ),
    re.compile(
        r"(?P<partial>partially initialized module) '(?P<module>[\w.]+)' "
        r"has no attribute '(?P<name>\w+)'"
    ),
    re.compile(
        r"cannot access submodule '(?P<name>\w+)' of module '(?P<module>[\w.]+)' "
        r"(?P<partial>\(most likely due to a circular import\))"
    ),
    re.compile(r"(?P<partial>deadlock detected by) _ModuleLock\('(?P<module>[\w.]+)'\)"),
)


class ImportRaceSign(Struct, frozen=True, kw_only=True):
    """An error of an import, which a thread may have caused that imported at the same time.

    name: what was missing in `module`; None if the line names none. is_partial: the line itself
    says that the module was incomplete.
    """

    module: str
    name: str | None
    is_partial: bool

    @property
    def probe(self) -> str:
        """The command that tests whether the import can be lost to another thread."""
        target = self.module
        if self.name is not None:
            target += f":{self.name}"
        return f"ci-doctor import-race probe {target}"


def import_race_sign(lines: Iterable[str]) -> ImportRaceSign | None:
    """What the last such line among `lines` says; None if there is none."""
    last = None
    for match in filter(None, (sign.search(line) for line in lines for sign in _SIGNS)):
        groups = match.groupdict()
        last = ImportRaceSign(
            module=groups["module"],
            name=groups.get("name"),
            is_partial=groups["partial"] is not None,
        )
    return last


def is_import_race(text: str) -> bool:
    """Whether `text` is a name of the subject, such an error, or the beginning of one."""
    if text == "import-race" or import_race_sign([text]) is not None:
        return True
    words = ("cannot import name", "partially initialized module", "circular import")
    return any(each in text.lower() for each in words)


def next_step(lines: Iterable[str]) -> str | None:
    """What to do about such an error in a log, without a full stop; None without one."""
    sign = import_race_sign(lines)
    if sign is None:
        return None
    words = f"if it fails in some starts only, two threads import {sign.module} at once: "
    # A probe does not cover import cycles, of which an incomplete module is the usual sign.
    if sign.is_partial:
        return f"{words}`{EXPLAIN}`"
    return f"{words}`{sign.probe}`, and `{EXPLAIN}`"


# --- what happened, as findings ---


DIED = Rule(
    id="services/died",
    severity=Severity.ERROR,
    meaning=(
        "A service ended by itself, before it was ready or while it was in use. Exit code 0 counts "
        "too, since a server runs until it is stopped."
    ),
    remedy="Read the excerpt of its log; the line marked with `>` is the nearest to the cause.",
)
DESCENDANT_DIED = Rule(
    id="services/descendant-died",
    severity=Severity.ERROR,
    meaning=(
        "A signal ended a process below a service (a worker, an engine), and the service itself "
        "lived on without it."
    ),
    remedy=(
        'Read the excerpt of the log. If such an end is wanted, set `descendants = "ignore"` for '
        "that service."
    ),
)
OOM_KILLED = Rule(
    id="services/oom-killed",
    severity=Severity.ERROR,
    meaning=(
        "The kernel killed a process because memory ran out: the limit of its cgroup, or the whole "
        "machine's. The latter lies outside the change."
    ),
    remedy=("Raise the memory limit of the step or container, or lower what the service takes."),
)
FATAL_LINE = Rule(
    id="services/fatal-line",
    severity=Severity.ERROR,
    meaning=(
        "A service wrote a line that its `fatal` pattern names, and did not end: a server that "
        "serves no more may live on."
    ),
    remedy="Read the line; make the pattern narrower if it means no end.",
)
HUNG = Rule(
    id="services/hung",
    severity=Severity.ERROR,
    meaning=(
        "A service was ready, then failed its `liveness` probe several times in a row. Meanwhile it "
        "used no CPU, wrote nothing to its log and answered no other request."
    ),
    remedy=(
        "Read where its processes wait, and the last lines of its log. With py-spy on PATH the "
        "report has the stacks of Python processes."
    ),
)
NOT_READY = Rule(
    id="services/not-ready",
    severity=Severity.ERROR,
    meaning="A service lived and did not become ready in time.",
    remedy=(
        "Read its log and the last answer of its probe. Raise `start_timeout` or `--timeout` only "
        "if it still made progress."
    ),
)
OUTSIDE = Rule(
    id="services/outside",
    severity=Severity.ERROR,
    meaning=(
        "A service could not serve for a reason outside the change: its port is taken, the disk is "
        "full, no memory is left."
    ),
    remedy="Free what is named, or retry on another machine.",
)
PORT_OF_JOB = Rule(
    id="services/port-of-job",
    severity=Severity.ERROR,
    meaning="A process that this job has started listens on the port of a service. Another run of the job meets it again.",
    remedy="End that process before, or give the service a port of its own (`{port}`).",
)
CLIENT_FAILED = Rule(
    id="services/client-failed",
    severity=Severity.ERROR,
    meaning="Every service was ready and lived; the command that ran under them failed by itself.",
    remedy="Read what the command printed. ci-doctor exits with the same status.",
)
ENDED_WITH_CLIENT = Rule(
    id="services/ended-with-client",
    severity=Severity.WARNING,
    meaning=(
        "A service ended by itself in the moment in which the command that used it ended well."
    ),
    remedy="Nothing, if the command asks its server to end; else read the log.",
)
KILLED = Rule(
    id="services/killed",
    severity=Severity.NOTE,
    meaning="Processes ignored every request to end and had to be killed.",
    remedy="Let the server end on SIGTERM: a deployment that kills it loses what it holds.",
)
SURVIVOR = Rule(
    id="services/survivor",
    severity=Severity.WARNING,
    meaning=(
        "A process outlived even SIGKILL: it is held in the kernel (often by a device or a network "
        "file system), or belongs to another user."
    ),
    remedy=(
        "Look at it with `ps -o pid,user,stat,wchan,args -p PID`; the machine may need a restart."
    ),
)
NOT_RELEASED = Rule(
    id="services/not-released",
    severity=Severity.WARNING,
    meaning=(
        "A condition of `released` did not hold in time after the stop: a port or GPU memory is "
        "still taken."
    ),
    remedy="Find who holds it, or raise `release_timeout`.",
)
STOP_FAILED = Rule(
    id="services/stop-failed",
    severity=Severity.WARNING,
    meaning="Something went wrong while services were stopped: one crashed, or a `stop_command` failed.",
    remedy="Read the end of the service's log. What a `stop_command` should have stopped may still run.",
)
LEFT_BEHIND = Rule(
    id="services/left-behind",
    severity=Severity.WARNING,
    meaning=(
        "Something that a service's own processes made or held is still there after the stop: "
        'shared memory, a semaphore, a temporary file, a socket, a port. With `leaks = "strict"` '
        "it is an error. Nothing is removed: it may be meant to stay."
    ),
    remedy="Let it remove them, or list them in `leaks_allowed`; see report.html.",
)
UNSEEN = Rule(
    id="services/leaks-unseen",
    severity=Severity.ERROR,
    meaning=(
        'A service is to leave nothing behind (`leaks = "strict"`), and this could not be checked. '
        "Its processes belong to another user, or a place such as /dev/shm could not be read."
    ),
    remedy="Run ci-doctor as the user of the service, or as root. Mend the reason that is named.",
)
LOG_CUT = Rule(
    id="services/log-cut",
    severity=Severity.NOTE,
    meaning="A log grew beyond its limit, so its middle was cut out; the log marks the cut.",
    remedy="Raise `log_limit` for that service, or make it write less.",
)

RULES = (
    DIED,
    DESCENDANT_DIED,
    OOM_KILLED,
    FATAL_LINE,
    HUNG,
    NOT_READY,
    OUTSIDE,
    PORT_OF_JOB,
    CLIENT_FAILED,
    ENDED_WITH_CLIENT,
    KILLED,
    SURVIVOR,
    NOT_RELEASED,
    STOP_FAILED,
    LEFT_BEHIND,
    UNSEEN,
    LOG_CUT,
)


# As many lines as every renderer shows of one excerpt.
_SHOWN = 10
# Processes that a sentence names: a server may have a hundred workers.
_NAMED = 3
# Letters of an example's name, of several things of one kind.
_EXAMPLE = 20


def finding_of(failure: ServiceFailure) -> Finding:
    """The failure of one service: its log's root lines (`> ` before the root), what followed."""
    rule = _rule_of(failure)
    return rule.finding(
        failure.message, evidence=evidence_of(failure), remedy=_remedy(rule, failure)
    )


def late_finding(failure: ServiceFailure) -> Finding:
    """A service that ended in the moment in which its client ended well."""
    return ENDED_WITH_CLIENT.finding(failure.message, evidence=evidence_of(failure))


def _rule_of(failure: ServiceFailure) -> Rule:
    rules = (
        # Before the kind: whoever ran out of memory, this rule's remedy is the one that helps.
        (bool(failure.oom), OOM_KILLED),
        (failure.is_of_job, PORT_OF_JOB),
        (failure.kind is FailureKind.OUTSIDE, OUTSIDE),
        (failure.kind is FailureKind.NOT_READY, NOT_READY),
        (failure.fatal is not None, FATAL_LINE),
        (bool(failure.processes), HUNG),
        (failure.descendant is not None, DESCENDANT_DIED),
    )
    return next((rule for holds, rule in rules if holds), DIED)


def evidence_of(failure: ServiceFailure, *, about_runs: bool = True) -> tuple[Evidence, ...]:
    """The root lines of its log, its peak memory, and what followed from it.

    `about_runs`: it says too whether another run can help. A verdict over many starts knows better.
    """
    return tuple(_evidence(failure, about_runs=about_runs))


def _evidence(failure: ServiceFailure, *, about_runs: bool) -> Iterator[Evidence]:
    if failure.log is not None:
        excerpt = marked(failure.tail, failure.tail_root, _SHOWN)
        yield Evidence(
            file=failure.log,
            line=failure.tail_line,
            end_line=failure.tail_end_line,
            excerpt="\n".join(excerpt) or "(it wrote nothing)",
        )
    if failure.processes:
        yield Evidence(excerpt="\n".join(failure.processes))
    # What its log, and another service's, name as the cause, and whether another run can help.
    if failure.cause is not None:
        yield Evidence(excerpt=_words_of(failure.cause, failure.kind, about_runs=about_runs))
    if failure.elsewhere is not None:
        # The line of another service's log that explains the failure better.
        other = failure.elsewhere
        words = _words_of(other, failure.kind, about_runs=about_runs)
        yield Evidence(file=other.place.file, excerpt=f"> {other.place.text}\n{words}")
    if failure.peak_rss is not None:
        yield Evidence(excerpt=f"peak memory {size(failure.peak_rss)}")
    if failure.consequences:
        lines = [f"  {sentence}" for sentence in failure.consequences]
        lines.insert(0, "then")
        yield Evidence(excerpt="\n".join(lines))


def _words_of(cause: Cause, kind: FailureKind, *, about_runs: bool) -> str:
    """`by its log: missing dependency (import/no-module). Another run is useless: …`."""
    if cause.class_ is None:
        return f"by its log: {cause.rule}"
    named = f"by its log: {cause.title} ({cause.rule})"
    if not about_runs:
        return named
    # The words agree with the exit code: also the machine may have shown a cause outside.
    is_proven = kind is FailureKind.OUTSIDE
    words = about_retry(cause.retry, is_proven=is_proven, is_test=cause.is_of_test)
    return f"{named}. {words}"


def _remedy(rule: Rule, failure: ServiceFailure) -> NextStep | None:
    first = _first_step(rule, failure)
    if isinstance(first, ShellCommand):
        if next_step(failure.tail) is None:
            return first
        first = f"`{first.words}`"
    return with_next_step(first, failure)


def with_next_step(advice: str | None, failure: ServiceFailure) -> str | None:
    """`advice`, and after it the command that investigates the error in the log, if there is one."""
    step = next_step(failure.tail)
    if step is None or advice is None:
        return step or advice
    return f"{advice.removesuffix('.')}; {step}"


def _first_step(rule: Rule, failure: ServiceFailure) -> NextStep | None:
    if rule in {OOM_KILLED, OUTSIDE, PORT_OF_JOB}:
        return rule.remedy
    if failure.log is None:
        return "see why it could not be started"
    log = shlex.quote(failure.log)
    if rule is NOT_READY:
        return (
            f"see whether it still made progress (`tail {log}`) before you raise `start_timeout` "
            "or `--timeout`"
        )
    if failure.tail_line is None:
        return ShellCommand(f"less {log}")
    return ShellCommand(f"less +{failure.tail_line} {log}")


def stop_findings(result: StopResult) -> Iterator[Finding]:
    """What stopping a group has brought to light; none of it changes a verdict."""
    # In the order of their weight: a survivor holds a GPU for the next job, a cut log harms nobody.
    if result.survivors:
        pids = ",".join(str(process.pid) for process in result.survivors)
        yield SURVIVOR.finding(
            f"not even SIGKILL has ended {_named(result.survivors)}",
            remedy=ShellCommand(f"ps -o pid,user,stat,wchan,args -p {pids}"),
        )
    yield from _sentences(NOT_RELEASED, result.not_released)
    yield from _sentences(STOP_FAILED, result.problems)
    yield from leak_findings(result.left_behind)
    if result.killed:
        yield KILLED.finding(
            f"{_named(result.killed)} ignored every request to end and needed SIGKILL",
            remedy=KILLED.remedy,
        )
    yield from _sentences(LOG_CUT, result.cut_logs)


def _sentences(rule: Rule, sentences: Sequence[str]) -> Iterator[Finding]:
    for sentence in sentences:
        yield rule.finding(sentence, remedy=rule.remedy)


def _named(processes: Sequence[NamedProcess]) -> str:
    """`python (pid 12), worker (pid 14) and 3 more`."""
    names = [f"{process.name} (pid {process.pid})" for process in processes[:_NAMED]]
    text = ", ".join(names)
    if len(processes) > _NAMED:
        text += f" and {len(processes) - _NAMED} more"
    return text


def leak_findings(left: LeftBehind) -> Iterator[Finding]:
    """One for all services, and one for those that may leave nothing; what is unknown is none.

    What a known program leaves by design is one only where nothing may stay.
    """
    strict = [thing for thing in left.things if thing.strict]
    others = [thing for thing in left.things if not thing.strict and thing.known is None]
    if strict:
        yield _leak_finding(strict, Severity.ERROR)
    if others:
        yield _leak_finding(others, LEFT_BEHIND.severity)
    if left.unseen:
        yield UNSEEN.finding(
            f"what services left behind could not be seen: {', '.join(left.unseen)}",
            remedy=UNSEEN.remedy,
        )


def _leak_finding(things: Sequence[LeftThing], severity: Severity) -> Finding:
    """Of a few things how each is known, and what removes it; the table counts more of them."""
    services = dict.fromkeys(name for thing in things for name in thing.services)
    sentence = f"{' and '.join(services)} left behind {summary(things)}"
    if len(things) > _NAMED:
        return LEFT_BEHIND.finding(sentence, remedy=LEFT_BEHIND.remedy, severity=severity)
    lines = [f"{_what(thing)} {thing.name}, {thing.why}" for thing in things]
    removals = [thing.remedy for thing in things if thing.remedy]
    return LEFT_BEHIND.finding(
        sentence,
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy="; ".join(removals) or LEFT_BEHIND.remedy,
        severity=severity,
    )


def summary(things: Sequence[LeftThing]) -> str:
    """`shared memory /dev/shm/psm_1`, `3 things: shared memory, unix socket`."""
    if len(things) == 1:
        return f"{things[0].kind} {things[0].name}"
    kinds = dict.fromkeys(str(thing.kind) for thing in things)
    if len(things) > _NAMED and len(kinds) > 1:
        return f"{len(things)} things of {len(kinds)} kinds"
    return f"{len(things)} things: {', '.join(kinds)}"


def leak_table(left: LeftBehind) -> tuple[Table, ...]:
    """A row for each service and kind, and how much belongs to nobody known; empty if there is nothing.

    The page lists each thing, from the facts.
    """
    groups: dict[tuple[tuple[str, ...], str], list[LeftThing]] = {}
    for thing in left.things:
        groups.setdefault((thing.services, _what(thing)), []).append(thing)
    rows = [
        row(" and ".join(services), what, _which(group))
        for (services, what), group in groups.items()
    ]
    rows += [
        row("owner unknown", "new meanwhile", f"{count} in {folder}")
        for folder, count in left.unknown.items()
    ]
    return (Table(title="Left behind", rows=tuple(rows)),) if left.things else ()


def _what(thing: LeftThing) -> str:
    return thing.known or str(thing.kind)


def _which(group: Sequence[LeftThing]) -> str:
    """`/dev/shm/psm_1, 2.0 MB`, or `6 in /dev/shm, 12.0 MB, such as psm_1`, in a line of a terminal."""
    taken = sum(thing.size or 0 for thing in group)
    of_size = f", {size(taken)}" if taken else ""
    folder, _, name = group[0].name.rpartition("/")
    if len(group) == 1:
        return group[0].name + of_size
    folders = {thing.name.rpartition("/")[0] for thing in group}
    where = f" in {len(folders)} directories"
    if all(is_own_name(path.rpartition("/")[2]) for path in folders):
        where = " in $TMPDIR"  # of each start, which is gone with it
    elif len(folders) == 1:
        where = f" in {folder}" if folder else ""
    return f"{len(group)}{where}{of_size}, such as {shortened(name, _EXAMPLE)}"
