# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from ci_doctor.checks.python.python_state import read_state

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.python.interpreters import CHECK
from tests.support.packages import site_of
from tests.unit.checks.python.conftest import Examine


@pytest.mark.parametrize("text", ["", "hello", "{[]: 1}", "{", "[1]", "{'version': 3}"])
def test_what_is_no_state_is_none(text: str) -> None:
    assert read_state(text) is None


def test_a_start_file_that_prints_at_the_end_does_not_break_a_sound_python(
    python: Path, examine: Examine
) -> None:
    line = "import atexit; atexit.register(print, 'bye')\n"
    (site_of(python) / "talk.pth").write_text(line)

    assert examine(CHECK, python).status is CheckStatus.OK
