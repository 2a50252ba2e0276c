# SPDX-License-Identifier: Apache-2.0
"""Reads growing logs until a signal comes, and names each fatal cause as it appears."""

import asyncio
import contextlib
import glob
from collections.abc import Callable, Sequence
from pathlib import Path

from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.exit_status import retry_policy
from ci_doctor.diagnosis.new_causes import CauseWatch, NewCause
from ci_doctor.diagnosis.next_command import next_command
from ci_doctor.diagnosis.reading.expand import expand
from ci_doctor.diagnosis.reading.follow import follow
from ci_doctor.diagnosis.reading.open_log import STANDARD_INPUT
from ci_doctor.diagnosis.rules import rule_of
from ci_doctor.errors import UsageError
from ci_doctor.model.cause import Cause, LogLine, title_of
from ci_doctor.model.facts.diagnose import FollowFacts
from ci_doctor.model.finding import Evidence
from ci_doctor.model.outcome import Failure, Outcome, signal_kind
from ci_doctor.render.formatting import amount
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.private_keys import first_words


def follow_logs(
    names: Sequence[str],
    rules: tuple[Path, ...],
    interruption: Interruption,
    on_cause: Callable[[Cause], None],
) -> Outcome:
    """Follow the logs `names` until `interruption`, and give each new cause to `on_cause`.

    A file that does not exist yet is waited for. Raises UsageError for what cannot be followed,
    ConfigError if one of the files `rules` has a mistake.
    """
    paths = _paths(names)
    watch = CauseWatch(load_rules(rules))
    causes: list[Cause] = []

    def take(cause: Cause) -> None:
        causes.append(cause)
        on_cause(cause)

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_follow(paths, watch, interruption, take))
    for cause in watch.rest():
        take(_named(cause))
    return _outcome(paths, causes, interruption)


def _paths(names: Sequence[str]) -> list[Path]:
    if STANDARD_INPUT in names:
        raise UsageError("--follow reads files, and no stdin", hint="name the file that is written")
    paths: list[Path] = []
    for name in names:
        expanded = expand([name])
        logs = expanded.names
        # A plain name is that of a file to come.
        if not logs and not Path(name).is_dir() and not glob.has_magic(name):
            logs = (name,)
        if not logs:
            raise UsageError(f"{name}: {expanded.unreadable.get(name, 'no log')}")
        paths.extend(Path(log) for log in logs)
    return paths


async def _follow(
    paths: Sequence[Path],
    watch: CauseWatch,
    interruption: Interruption,
    take: Callable[[Cause], None],
) -> None:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is one
    with interruption.watch(task):
        async with contextlib.aclosing(follow(paths)) as growth:
            async for news in growth:
                for cause in watch.take(str(paths[news.log]), news.lines):
                    take(_named(cause))


def _named(cause: NewCause) -> Cause:
    rule = cause.rule
    place = LogLine(
        file=cause.log, line=cause.line, text=cause.clean.text, message=cause.clean.message
    )
    return Cause(
        fingerprint=cause.fingerprint,
        title=title_of(rule.class_),
        place=place,
        rule=rule.id,
        class_=rule.class_,
        retry=retry_policy(rule.class_, cause.clean.text),
        explanation=rule.explanation,
        remedy=rule.remedy or rule_of(rule.class_).remedy or "",
        next_command=next_command(rule.next_command, cause.fields),
    )


def _outcome(paths: Sequence[Path], causes: Sequence[Cause], interruption: Interruption) -> Outcome:
    received = interruption.received
    findings = []
    for cause in causes:
        place = cause.place
        evidence = Evidence(
            file=place.file, line=place.line, end_line=place.line, excerpt=place.text
        )
        summary = f"{cause.title}: {first_words(place.message, 300)}"
        findings.append(
            rule_of(cause.class_).finding(
                summary, evidence=(evidence,), remedy=cause.remedy or None
            )
        )
    summary = f"{amount(len(causes), 'cause')} named in {amount(len(paths), 'log')}"
    error = None
    if received is not None:
        error = Failure(message=f"ended by {received.name}", kind=signal_kind(received.name))
    return Outcome(
        verdict=None,
        summary=summary,
        error=error,
        findings=tuple(findings),
        facts=FollowFacts(causes=tuple(causes)),
    )
