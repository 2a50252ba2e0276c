# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import pytest

from ci_doctor.commands.run_record import WarmUp
from tests.support.cli import environment


def test_it_loads_once_however_often_it_is_begun() -> None:
    calls: list[str] = []
    warm_up = WarmUp(lambda: calls.append("loaded"))
    warm_up.begin()
    warm_up.begin()
    warm_up.wait()
    assert calls == ["loaded"]


def test_waiting_for_what_was_never_begun_returns() -> None:
    WarmUp().wait()


@pytest.mark.integration
def test_nothing_is_left_to_load_when_a_report_is_rendered() -> None:
    program = """
import sys
from ci_doctor.commands.run_record import WarmUp
warm_up = WarmUp()
assert "ci_doctor.render.text" not in sys.modules
warm_up.begin()
warm_up.wait()
for name in ("json", "junit", "markdown", "text"):
    assert f"ci_doctor.render.{name}" in sys.modules, name
"""
    subprocess.run([sys.executable, "-c", program], env=environment(), check=True)
