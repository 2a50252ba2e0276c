# SPDX-License-Identifier: Apache-2.0
"""A command to paste is filled from a log, which anybody may have written."""

import pytest

from ci_doctor.diagnosis.next_command import next_command

TEMPLATE = "ci-doctor import-race probe {module}:{name}"


def test_captures_stand_in_the_command() -> None:
    fields = {"module": "transformers.utils", "name": "GenerationConfig"}

    command = next_command(TEMPLATE, fields)

    assert command == "ci-doctor import-race probe transformers.utils:GenerationConfig"


@pytest.mark.parametrize(
    "name", ["", "x; rm -rf ~", "$(id)", "`id`", "-rf", "a b", "a\nb", "a'b", "a|b", "\u202ea"]
)
def test_what_may_act_in_a_shell_makes_no_command(name: str) -> None:
    assert next_command(TEMPLATE, {"module": "os", "name": name}) is None


def test_without_a_template_or_a_capture_there_is_none() -> None:
    assert next_command(None, {}) is None
    assert next_command(TEMPLATE, {"module": "os"}) is None
    assert next_command("ci-doctor setup-env", {}) == "ci-doctor setup-env"
