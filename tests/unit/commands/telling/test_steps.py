# SPDX-License-Identifier: Apache-2.0
from ci_doctor.commands.teller import LineKind, StepSource
from tests.unit.commands.events import live, taken


def test_long_steps_stay() -> None:
    source = StepSource(LineKind.KEPT)
    assert taken(source, "confirming 1/2", "confirming 2/2") == [
        ("kept", "confirming 1/2"),
        ("kept", "confirming 2/2"),
    ]
    assert live(source) == []


def test_of_short_steps_the_newest_is_live() -> None:
    source = StepSource(LineKind.STATUS)
    assert taken(source, "run 1", "run 2") == [("status", "run 1"), ("status", "run 2")]
    assert live(source) == ["run 2"]
