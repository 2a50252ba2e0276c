# SPDX-License-Identifier: Apache-2.0
"""What happened to services as findings, with the root line of each log marked. Pure."""

import shlex
from collections.abc import Iterator, Sequence

from ci_doctor.diagnosis.excerpt import marked
from ci_doctor.diagnosis.import_race import next_step
from ci_doctor.model.cause import Cause, about_retry
from ci_doctor.model.finding import Evidence, Finding, NextStep, ShellCommand
from ci_doctor.model.rule import Rule
from ci_doctor.model.service import FailureKind, NamedProcess, ServiceFailure, StopResult
from ci_doctor.render.formatting import size
from ci_doctor.services import rules
from ci_doctor.services.leaks.findings import leak_findings

# As many lines as every renderer shows of one excerpt.
_SHOWN = 10
# Processes that a sentence names: a server may have a hundred workers.
_NAMED = 3


def finding_of(failure: ServiceFailure) -> Finding:
    """The failure of one service: its log's root lines (`> ` before the root), what followed."""
    rule = _rule_of(failure)
    return rule.finding(
        failure.message, evidence=evidence_of(failure), remedy=_remedy(rule, failure)
    )


def late_finding(failure: ServiceFailure) -> Finding:
    """A service that ended in the moment in which its client ended well."""
    return rules.ENDED_WITH_CLIENT.finding(failure.message, evidence=evidence_of(failure))


def _rule_of(failure: ServiceFailure) -> Rule:
    # Before the kind: whoever ran out of memory, this rule's remedy is the one that helps.
    if failure.oom:
        return rules.OOM_KILLED
    if failure.kind is FailureKind.OUTSIDE:
        return rules.OUTSIDE
    if failure.kind is FailureKind.NOT_READY:
        return rules.NOT_READY
    if failure.fatal is not None:
        return rules.FATAL_LINE
    if failure.descendant is not None:
        return rules.DESCENDANT_DIED
    return rules.DIED


def evidence_of(failure: ServiceFailure) -> tuple[Evidence, ...]:
    """The root lines of its log, its peak memory, and what followed from it."""
    return tuple(_evidence(failure))


def _evidence(failure: ServiceFailure) -> Iterator[Evidence]:
    if failure.log is not None:
        excerpt = marked(failure.tail, failure.tail_root, _SHOWN)
        yield Evidence(
            file=failure.log,
            line=failure.tail_line,
            end_line=failure.tail_end_line,
            excerpt="\n".join(excerpt) or "(it wrote nothing)",
        )
    yield from cause_words(failure)
    if failure.peak_rss is not None:
        yield Evidence(excerpt=f"peak memory {size(failure.peak_rss)}")
    if failure.consequences:
        lines = [f"  {sentence}" for sentence in failure.consequences]
        lines.insert(0, "then")
        yield Evidence(excerpt="\n".join(lines))


def cause_words(failure: ServiceFailure) -> Iterator[Evidence]:
    """What its log, and another service's, name as the cause, and whether another run can help."""
    if failure.cause is not None:
        yield Evidence(excerpt=_words_of(failure.cause, failure.kind))
    if failure.elsewhere is not None:
        yield _elsewhere(failure.elsewhere, failure.kind)


def _words_of(cause: Cause, kind: FailureKind) -> str:
    """`by its log: missing dependency (import/no-module). Another run is useless: …`."""
    if cause.class_ is None:
        return f"by its log: {cause.rule}"
    # The words agree with the exit code: also the machine may have shown a cause outside.
    words = about_retry(cause.retry, is_proven=kind is FailureKind.OUTSIDE)
    return f"by its log: {cause.title} ({cause.rule}). {words}"


def _elsewhere(cause: Cause, kind: FailureKind) -> Evidence:
    """The line of another service's log that explains the failure better."""
    words = _words_of(cause, kind)
    return Evidence(file=cause.place.file, excerpt=f"> {cause.place.text}\n{words}")


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
    if rule in {rules.OOM_KILLED, rules.OUTSIDE}:
        return rule.remedy
    if failure.log is None:
        return "see why it could not be started"
    log = shlex.quote(failure.log)
    if rule is rules.NOT_READY:
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
        yield rules.SURVIVOR.finding(
            f"not even SIGKILL has ended {_named(result.survivors)}",
            remedy=ShellCommand(f"ps -o pid,user,stat,wchan,args -p {pids}"),
        )
    yield from _sentences(rules.NOT_RELEASED, result.not_released)
    yield from _sentences(rules.STOP_FAILED, result.problems)
    yield from leak_findings(result.left_behind)
    if result.killed:
        yield rules.KILLED.finding(
            f"{_named(result.killed)} ignored every request to end and needed SIGKILL",
            remedy=rules.KILLED.remedy,
        )
    yield from _sentences(rules.LOG_CUT, result.cut_logs)


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
