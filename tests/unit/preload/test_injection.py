# SPDX-License-Identifier: Apache-2.0
"""The environment that injects."""

import os
from pathlib import Path

import pytest

from ci_doctor.preload.injection import (
    FOLDER,
    INJECT,
    RULES,
    injected,
    with_rules,
)
from ci_doctor.preload.preload_rule import parse_rule


def test_our_folder_comes_first_and_the_rest_of_pythonpath_stays() -> None:
    environ = injected({"PYTHONPATH": "/a:/b", "HOME": "/h"}, [Path("/x.py")], MORE="1")
    assert environ == {"PYTHONPATH": f"{FOLDER}:/a:/b", "HOME": "/h", INJECT: "/x.py", "MORE": "1"}


@pytest.mark.parametrize("value", [":/a", "/a:", "/a::/b", ":", ""])
def test_an_empty_entry_which_is_the_working_directory_stays(value: str) -> None:
    once = injected({"PYTHONPATH": value}, [Path("/x.py")])
    assert once["PYTHONPATH"] == (f"{FOLDER}:{value}" if value else str(FOLDER))
    assert injected(once, [Path("/x.py")]) == once


def test_injecting_twice_adds_and_repeats_nothing() -> None:
    once = injected({}, [Path("/x.py")])
    twice = injected(once, [Path("/y.py"), Path("/x.py")])
    assert twice == {"PYTHONPATH": str(FOLDER), INJECT: "/x.py:/y.py"}


def test_rules_are_added_to_those_of_an_outer_run() -> None:
    environ = with_rules(
        with_rules({}, [parse_rule("a=b:C")]), [parse_rule("d=e;f"), parse_rule("a=b:C")]
    )
    assert environ[RULES] == "a=b:C d=e;f"
    assert all(Path(path).is_file() for path in environ[INJECT].split(os.pathsep))
