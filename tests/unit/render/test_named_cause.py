# SPDX-License-Identifier: Apache-2.0
"""A cause of a log that is followed, for a person and for a program."""

import json

from ci_doctor.model.cause import Cause, LogLine, RetryPolicy
from ci_doctor.render.diagnosis_screen import named_cause_json, named_cause_text
from tests.support.diagnoses import HOSTILE


def a_named_cause(text: str = "cp: No space left", file: str = "a.log") -> Cause:
    return Cause(
        place=LogLine(file=file, line=7, text=text, message=text),
        rule="disk/full",
        class_="disk",
        title="disk",
        retry=RetryPolicy.YES,
        fingerprint="0123456789abcdef",
        explanation="The disk is full.",
        remedy="Free some space.",
        next_command=None,
    )


def test_it_names_the_place_the_class_and_what_to_do() -> None:
    text = named_cause_text(a_named_cause())

    assert text == "a.log:7  disk\n  cp: No space left\n  try: Free some space.\n\n"


def test_its_json_is_one_line() -> None:
    line = named_cause_json(a_named_cause("two\nlines", file="x\udcff.log"))

    assert line.count("\n") == 1
    cause = json.loads(line)
    assert (cause["class"], cause["place"]["line"]) == ("disk", 7)


def test_hostile_text_acts_on_no_terminal() -> None:
    shown = named_cause_text(a_named_cause(HOSTILE, file=HOSTILE[:100]))

    assert not set("\x1b\x00\x07\x9b\u202e\r") & set(shown)
    assert len(shown) < 2000
