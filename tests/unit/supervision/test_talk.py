# SPDX-License-Identifier: Apache-2.0
from ci_doctor.diagnosis.diagnosis import Diagnosis
from ci_doctor.diagnosis.outcome import outcome_of
from ci_doctor.model.cause import Cause, FailureClass, LogLine
from ci_doctor.model.facts.diagnose import DiagnoseFacts, LogLines
from ci_doctor.supervision.talk import MOST_LINES, talk
from tests.support.diagnoses import a_cause


def a_place(line: int, text: str) -> LogLine:
    return LogLine(file="command.log", line=line, text=text)


def facts_of(cause: Cause | None, best: LogLine | None = None) -> DiagnoseFacts:
    excerpt = None
    if best is not None:
        excerpt = LogLines(
            file=best.file,
            first_line=best.line or 1,
            lines=(best.text,),
            marked=0,
            messages=(best.text,),
        )
    diagnosis = Diagnosis(cause=cause, best=best, excerpt=excerpt, others=(), logs=("command.log",))
    facts = outcome_of(diagnosis).facts
    assert isinstance(facts, DiagnoseFacts)
    return facts


def test_the_cause_its_consequences_and_the_next_step_stand_in_order() -> None:
    cause = a_cause(
        place=a_place(7, "OSError: the line"),
        class_=FailureClass.CODE_BUG,
        consequences=(a_place(9, "engine core died"), a_place(12, "connection refused")),
        next_command="ci-doctor import-race probe a:b",
    )

    lines = talk("pytest: exit code 1", facts_of(cause), "r/command.log", ()).splitlines()

    assert lines[0] == "✗ pytest: exit code 1"
    assert lines[1].endswith("80 % sure: A Python program raised an exception that nobody caught.")
    assert lines[2:6] == [
        "  r/command.log:7",
        "  │ OSError: the line",
        "  so, line 9: engine core died",
        "  so, line 12: connection refused",
    ]
    assert lines[6].startswith("  try: Begin at the innermost frame in your own code.")
    assert lines[7:] == ["  run: ci-doctor import-race probe a:b", "  log: r/command.log"]


def test_without_a_cause_it_names_none() -> None:
    text = talk("make: exit code 2", facts_of(None, a_place(3, "make: stop")), None, ())

    assert " sure: " not in text
    assert "begin at line 3 of the output" in text
    assert "│ make: stop" in text


def test_without_a_diagnosis_it_says_how_the_command_ended_and_why_there_is_none() -> None:
    text = talk("make: exit code 2", None, None, ["no diagnosis: a reason"])

    assert text == "✗ make: exit code 2\n  note: no diagnosis: a reason\n"


def test_it_is_twelve_short_harmless_lines_at_most() -> None:
    places = tuple(a_place(line, f"\x1b[31m{'x' * 10_000}\r\ny") for line in range(9))
    cause = a_cause(consequences=places, next_command="next", explanation="a\nb")

    text = talk("x: exit code 1", facts_of(cause), "log", ["problem"] * 20)

    lines = text.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 301
    assert "\x1b" not in text
