# SPDX-License-Identifier: Apache-2.0
"""Short work loads no teller, long work has one."""

import pytest

from ci_doctor.commands.telling.late import LateTeller
from ci_doctor.system import clock


def test_the_first_two_seconds_are_silent(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    seconds = 100.0
    monkeypatch.setattr(clock, "now", lambda: seconds)

    with LateTeller() as tell:
        tell("reading a.log, 10 %")
        seconds += 2.5
        tell("reading a.log, 50 %")
        seconds += 2.5
        tell("reading a.log, 90 %")

    assert capfd.readouterr().err.split("\n") == ["reading a.log, 90 %", "", ""]
