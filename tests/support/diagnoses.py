# SPDX-License-Identifier: Apache-2.0
"""Diagnoses to test with: a cause in a log of ours, of which a test changes fields by name."""

from pathlib import Path
from typing import Any

from msgspec import structs

from ci_doctor.diagnosis.diagnosis import Diagnosis, diagnose, load_rules, outcome_of
from ci_doctor.diagnosis.log_text import clean_line
from ci_doctor.diagnosis.outside import judged, retry_policy
from ci_doctor.model.cause import Cause, FailureClass, LogLine, title_of
from ci_doctor.model.facts.diagnose import LogLines
from ci_doctor.model.outcome import Report
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
    fields: dict[str, Any] = {
        "fingerprint": "d36b44f3af775a6e",
        "place": LogLine(file="server.log", line=10, text=LINES[3]),
        "rule": "python/exception",
        "class_": FailureClass.CODE_BUG,
        "confidence": 0.8,
        "reasons": ("rule python/exception", "ends a traceback"),
        "is_final": True,
        "explanation": "A Python program raised an exception that nobody caught.",
        "remedy": "Begin at the innermost frame in your own code.",
        "consequences": (LogLine(file="client.log", line=3, text="Connection refused"),),
        **changes,
    }
    class_ = fields["class_"]
    fields["place"] = _with_message(fields["place"])
    fields["consequences"] = tuple(map(_with_message, fields["consequences"]))
    retry = retry_policy(class_, fields["place"].text)
    cause = Cause(title=title_of(class_), retry=retry, **fields)
    return judged(cause, is_outside=cause.is_outside, is_final=cause.is_final)


def _with_message(line: LogLine) -> LogLine:
    message = clean_line(line.text.encode(errors="replace")).message or line.text
    return structs.replace(line, message=line.message or message)


def a_diagnosis(cause: Cause | None, text: str = LINES[3]) -> Diagnosis:
    """What names `cause`, or nothing; the marked line of the excerpt is `text`."""
    lines = (*LINES[:3], text, LINES[4])
    return Diagnosis(
        cause=cause,
        best=LogLine(file="server.log", line=10, text=text),
        excerpt=LogLines(
            file="server.log",
            first_line=7,
            lines=lines,
            marked=3,
            messages=tuple(clean_line(each.encode(errors="replace")).message for each in lines),
        ),
        others=(_with_message(LogLine(file="server.log", line=2, text="error: perhaps this")),),
        logs=("server.log", "client.log"),
    )


def diagnosed(folder: Path, text: str, status: int | None = None) -> Diagnosis:
    """What a log with `text` comes to, of a command that ended with `status`, by our rules."""
    log = folder / "job.log"
    log.write_text(text, "utf-8")
    return diagnose([str(log)], load_rules(), status=status)


def cause_of(folder: Path, text: str, status: int | None = None) -> Cause:
    """The cause that `diagnosed` names."""
    cause = diagnosed(folder, text, status).cause
    assert cause is not None
    return cause


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
