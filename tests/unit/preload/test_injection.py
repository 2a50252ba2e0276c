# SPDX-License-Identifier: Apache-2.0
"""The environment that injects, and the command lines that it does not reach."""

import os
from pathlib import Path

import pytest

from ci_doctor.preload.injection import (
    FOLDER,
    INJECT,
    RULES_VARIABLE,
    injected,
    isolating_option,
    isolation,
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
    assert environ[RULES_VARIABLE] == "a=b:C d=e;f"
    assert all(Path(path).is_file() for path in environ[INJECT].split(os.pathsep))


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("python -I app.py", "-I"),
        ("python3.11 -sE app.py", "-E"),
        ("/usr/bin/python3 -X dev -W error -I -m app", "-I"),
        ("python3.13t -S app.py", "-S"),
        ("python -Wignore -E x", "-E"),
        ("python app.py -I", None),
        ("python -c pass -I", None),
        ("python -m app -E", None),
        ("python -mapp -E", None),
        ("python -XI app.py", None),
        ("python -W I app.py", None),
        ("python -u -B - -I", None),
        ("bash -I", None),
        ("pythonic -I", None),
        ("", None),
    ],
)
def test_options_that_keep_a_python_from_being_reached(line: str, option: str | None) -> None:
    assert isolating_option(line.split()) == option


@pytest.mark.parametrize(
    ("first_line", "option"),
    [
        ("#!/usr/bin/python3 -Es", "-E"),
        ("#!/usr/bin/env -S python3 -I", "-I"),
        ("#!/usr/bin/env python3", None),
        ("#!/bin/sh -E", None),
        ("no script", None),
    ],
)
def test_the_first_line_of_a_script_counts(
    first_line: str, option: str | None, tmp_path: Path
) -> None:
    script = tmp_path / "tool"
    script.write_text(first_line + "\n")
    script.chmod(0o755)
    assert isolation(["tool", "-I"], {"PATH": str(tmp_path)}) == option
    assert isolation([str(script)], {}) == option


def test_env_before_the_python_is_looked_through() -> None:
    assert isolation(["env", "A=1", "python3", "-E", "x.py"], {"PATH": "/usr/bin:/bin"}) == "-E"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (["timeout", "5", "python3", "-I", "x.py"], "-I"),
        (["env", "-u", "X", "python3", "-E"], "-E"),
        (["env", "-i", "python3", "x.py"], "env -i"),
        (["sh", "-c", "cd /x && exec python3 -I x.py"], "-I"),
        (["bash", "-ec", "python3 x.py"], None),
        (["python3", "--check-hash-based-pycs", "always", "-I"], "-I"),
        (["python3", "--check-hash-based-pycs", "always", "x.py", "-I"], None),
        (["make", "-I", "dir"], None),
    ],
)
def test_what_stands_before_the_python_is_looked_through(
    line: list[str], reason: str | None
) -> None:
    assert isolation(line, {"PATH": "/usr/bin:/bin"}) == reason


def test_a_command_that_is_not_there_says_nothing() -> None:
    assert isolation(["no-such-command", "-I"], {"PATH": "/nowhere"}) is None
