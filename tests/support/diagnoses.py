# SPDX-License-Identifier: Apache-2.0
"""Diagnoses to test with: a cause in a log of ours, of which a test changes fields by name."""

from typing import Any

from msgspec import structs

from ci_doctor.diagnosis.cause import Cause, Diagnosis, LogExcerpt, LogPlace
from ci_doctor.diagnosis.failure_class import FailureClass
from ci_doctor.diagnosis.outcome import outcome_of
from ci_doctor.model.report import Report
from tests.support.builders import a_report

LINES = (
    "(EngineCore pid=77) ERROR 01-28 15:58:45 [core.py:935] Traceback (most recent call last):",
    '(EngineCore pid=77) ERROR 01-28 15:58:45 [core.py:935]   File "/workspace/tiny/shards.py", line 48, in split',
    "(EngineCore pid=77) ERROR 01-28 15:58:45 [core.py:935]     raise ValueError(text)",
    "(EngineCore pid=77) ERROR 01-28 15:58:45 [core.py:935] ValueError: 40 heads for 3 GPUs",
    "RuntimeError: Engine core initialization failed.",
)


def a_cause(**changes: Any) -> Cause:
    """A ValueError at server.log:10, with one consequence in another log; `changes` are fields."""
    cause = Cause(
        place=LogPlace(log="server.log", line=10, text=LINES[3], ends_traceback=True),
        rule="python/exception",
        class_=FailureClass.CODE_BUG,
        confidence=0.8,
        reasons=("rule python/exception", "ends a traceback"),
        is_final=True,
        is_outside=False,
        fingerprint="d36b44f3af775a6e",
        explanation="A Python program raised an exception that nobody caught.",
        remedy="Begin at the innermost frame in your own code.",
        next_command=None,
        fields={},
        consequences=(LogPlace(log="client.log", line=3, text="Connection refused"),),
    )
    return structs.replace(cause, **changes)


def a_diagnosis(cause: Cause | None, text: str = LINES[3]) -> Diagnosis:
    """What names `cause`, or nothing; the marked line of the excerpt is `text`."""
    lines = (*LINES[:3], text, LINES[4])
    return Diagnosis(
        cause=cause,
        best=LogPlace(log="server.log", line=10, text=text),
        excerpt=LogExcerpt(first_line=7, lines=lines, marked=3),
        others=(LogPlace(log="server.log", line=2, text="error: perhaps this"),),
        logs=("server.log", "client.log"),
    )


def report_of(diagnosis: Diagnosis) -> Report:
    """The report that `ci-doctor diagnose` makes of it."""
    from msgspec import to_builtins

    outcome = outcome_of(diagnosis)
    return a_report(
        outcome.verdict,
        command="diagnose",
        argv=("diagnose", "server.log"),
        error=None,
        exit_code=0,
        summary=outcome.summary,
        findings=outcome.findings,
        tables=outcome.tables,
        facts=to_builtins(outcome.facts),
    )


HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 <b>bold</b> ]]> **star** `tick` | pipe \u202ereversed "
    "\x00nul \x9bCSI \r\nsecond line " + "x" * 70_000
)
