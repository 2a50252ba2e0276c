# SPDX-License-Identifier: Apache-2.0
"""A check of the repository that cannot be run as it is written is refused before anything runs."""

import pytest

from ci_doctor.checks.settings import OwnCheck, require_runnable
from ci_doctor.errors import ConfigError


def place(*keys: str) -> str:
    return f"ci-doctor.toml:{'.'.join(keys)}"


@pytest.mark.parametrize(
    ("name", "own", "message"),
    [
        ("a", OwnCheck(command=""), "ci-doctor.toml:a.command: a.command: the command is empty"),
        ("a", OwnCheck(command=[]), "ci-doctor.toml:a.command: a.command: the command is empty"),
        (
            "a",
            OwnCheck(command="sh 'x"),
            "ci-doctor.toml:a.command: a.command: No closing quotation",
        ),
        (
            "a",
            OwnCheck(command="true", timeout="0s"),
            "ci-doctor.toml:a.timeout: a.timeout: the timeout must be more than 0",
        ),
        (
            "a",
            OwnCheck(command="true", timeout="soon"),
            "ci-doctor.toml:a.timeout: a.timeout: not a duration: 'soon'",
        ),
        (
            "a",
            OwnCheck(command="true", timeout="11m"),
            "ci-doctor.toml:a.timeout: a.timeout: the timeout must be at most 10 min",
        ),
        ("a b", OwnCheck(command="true"), "ci-doctor.toml:a b: `a b` is no name of a check"),
    ],
)
def test_the_error_names_the_key_and_its_place(name: str, own: OwnCheck, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        require_runnable({"fine": OwnCheck(command="true"), name: own}, place)

    assert raised.value.message.startswith(message)


def test_what_can_be_run_is_accepted() -> None:
    require_runnable({"gpu-7.clock": OwnCheck(command=["sh", "-c", "true"], timeout=1.5)}, place)
