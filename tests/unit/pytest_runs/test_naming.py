# SPDX-License-Identifier: Apache-2.0
"""Node ids in other forms."""

from pathlib import Path

import pytest

from ci_doctor.pytest_runs.quarantine import (
    command_of,
    explain_command,
    group_and_name,
    shaping_options,
)


@pytest.mark.parametrize(
    ("test", "group", "name"),
    [
        ("tests/test_a.py::test_b", "tests.test_a", "test_b"),
        ("test_a.py::TestC::test_b[x::y]", "test_a.TestC", "test_b[x::y]"),
        ("doc.rst::doc.rst", "doc.rst", "doc.rst"),
        ("test_a.py", "test_a", "test_a.py"),
    ],
)
def test_a_node_id_has_a_group_and_a_name(test: str, group: str, name: str) -> None:
    assert group_and_name(test) == (group, name)


def test_the_command_works_below_the_root_of_the_tests() -> None:
    command = command_of(Path("py"), "tests/a.py::t[a b]", "/r", Path("/r/sub"))

    assert command == "py -m pytest '../tests/a.py::t[a b]'"


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (("-q", "-x", "tests"), ()),
        (("-c", "a b.ini", "-pno:x", "-k", "y"), ("-c", "a b.ini", "-pno:x")),
        (("--rootdir=r", "-o", "a=b", "--", "-p", "x"), ("--rootdir=r", "-o", "a=b")),
        (("--import-mode=importlib", "-p"), ("--import-mode=importlib", "-p")),
    ],
)
def test_options_that_decide_what_a_test_is_are_kept(
    args: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    assert shaping_options(args) == kept


def test_the_search_for_a_culprit_has_the_order_of_the_run() -> None:
    command = explain_command(Path("/v/bin/python"), ("-q", "a b"), 7)

    assert command == (
        "ci-doctor pytest --explain-flaky --python /v/bin/python -- -q 'a b' --randomly-seed=7"
    )
    assert explain_command(Path("p"), ("--randomly-seed=7",), 7).count("seed") == 1
