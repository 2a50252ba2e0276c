# SPDX-License-Identifier: Apache-2.0
from ci_doctor.diagnosis.cause import Diagnosis, LogPlace
from ci_doctor.supervision.talk import MOST_LINES, talk
from tests.unit.supervision.causes import a_cause


def a_place(line: int, text: str) -> LogPlace:
    return LogPlace(log="command.log", line=line, text=text)


def diagnosis(**changes: object) -> Diagnosis:
    fields: dict[str, object] = {"others": (), "logs": ("command.log",), "excerpt": None}
    return Diagnosis(**{"cause": None, "best": None, **fields, **changes})  # type: ignore[arg-type]


def test_the_cause_its_consequences_and_the_next_step_stand_in_order() -> None:
    cause = a_cause(
        consequences=(a_place(9, "engine core died"), a_place(12, "connection refused")),
        next_command="ci-doctor import-race probe a:b",
    )

    text = talk("pytest: exit code 1", diagnosis(cause=cause), "r/command.log", ())

    assert text.splitlines() == [
        "✗ pytest: exit code 1",
        "  cause (91 %): A program raised an exception.",
        "  r/command.log:7",
        "  │ OSError: the line",
        "  so, line 9: engine core died",
        "  so, line 12: connection refused",
        "  try: Read the line.",
        "  run: ci-doctor import-race probe a:b",
        "  log: r/command.log",
    ]


def test_without_a_cause_it_names_none() -> None:
    text = talk("make: exit code 2", diagnosis(best=a_place(3, "make: stop")), None, ())

    assert "cause (" not in text
    assert "look first at line 3 of the output" in text
    assert "│ make: stop" in text


def test_it_is_twelve_short_harmless_lines_at_most() -> None:
    places = tuple(a_place(line, f"\x1b[31m{'x' * 10_000}\r\ny") for line in range(9))
    cause = a_cause(consequences=places, next_command="next", explanation="a\nb")

    text = talk("x: exit code 1", diagnosis(cause=cause), "log", ["problem"] * 20)

    lines = text.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 301
    assert "\x1b" not in text
