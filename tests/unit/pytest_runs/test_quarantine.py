# SPDX-License-Identifier: Apache-2.0
"""Which tests a quarantine holds."""

import datetime as dt
from pathlib import Path

import pytest

from ci_doctor.errors import ConfigError
from ci_doctor.pytest_runs.quarantine import (
    QuarantineEntry,
    command_of,
    explain_command,
    group_and_name,
    quarantine,
    read_quarantine,
    shaping_options,
)

TODAY = dt.date(2026, 11, 23)


def entry(test: str, until: dt.date = TODAY) -> QuarantineEntry:
    return QuarantineEntry(test=test, reason="r", owner="o", until=until)


@pytest.mark.parametrize(
    ("pattern", "held"),
    [
        ("t.py::a[1]", True),
        ("t.py::a[*", True),
        ("t.py::*", True),
        ("t.py::a", False),
        ("t.py", False),
        # No set of characters.
        ("t.py::[ab][1]*", False),
    ],
)
def test_an_entry_holds_its_test_and_stars_hold_many(pattern: str, held: bool) -> None:
    found = quarantine([entry(pattern)], ["t.py::a[1]"], TODAY)

    assert (list(found.held) == ["t.py::a[1]"]) is held
    assert (len(found.unused) == 0) is held


def test_an_entry_may_name_the_test_as_the_history_suggests_it() -> None:
    test = "tests/api/test_serve.py::TestStream::test_first[a::b]"
    for name in ("tests.api.test_serve.TestStream::test_first[a::b]", "tests.api.test_serve.*"):
        assert list(quarantine([entry(name)], [test], TODAY).held) == [test]
    assert not quarantine([entry("tests.api.test_serve::test_first")], [test], TODAY).held


def test_an_entry_holds_through_its_last_day_and_no_longer() -> None:
    yesterday = TODAY - dt.timedelta(days=1)

    found = quarantine([entry("a"), entry("b", yesterday)], ["a", "b"], TODAY)

    assert list(found.held) == ["a"]
    assert [each.test for each in found.over] == ["b"]


@pytest.mark.parametrize(
    ("name", "has_places", "left_out"),
    [
        # Another test of a file that ran, and one that `-k` left out.
        ("t/a.py::gone", True, False),
        ("t.a::gone", True, False),
        ("t.a.TestX::gone", True, False),
        ("t/a.py::not_chosen", False, True),
        ("t.a::not_*", True, True),
        # A file that is not there, unless the run was of some files.
        ("t/b.py::x", False, False),
        ("t/b.py::x", True, True),
        ("t.b::x", True, True),
        ("*nowhere*", True, True),
    ],
)
def test_an_entry_whose_test_a_run_was_not_to_hold_is_no_mistake(
    name: str, has_places: bool, left_out: bool
) -> None:
    found = quarantine(
        [entry(name)],
        ["t/a.py::ran"],
        TODAY,
        deselected=["t/a.py::not_chosen"],
        has_places=has_places,
    )

    assert [len(found.left_out), len(found.unused)] == [left_out, not left_out]


def test_an_entry_that_holds_for_more_than_90_days_is_long() -> None:
    def long(entry: QuarantineEntry, today: dt.date = TODAY) -> int:
        return len(quarantine([entry], ["a"], today).long)

    assert long(entry("a", TODAY + dt.timedelta(days=90))) == 0
    assert long(entry("a", TODAY + dt.timedelta(days=91))) == 1
    assert long(entry("*", dt.date.max)) == 1
    # It holds no test.
    assert long(entry("gone", dt.date.max)) == 0


def test_the_last_dates_there_are_make_no_error() -> None:
    found = quarantine([entry("a", dt.date.max), entry("b", dt.date.min)], ["a", "b"], dt.date.max)

    assert (list(found.held), found.long) == (["a"], ())


def test_no_file_is_no_quarantine(tmp_path: Path) -> None:
    assert read_quarantine(tmp_path / "none.toml") == ()


@pytest.mark.parametrize(
    "text",
    [
        "quarantine = 1",
        "[[quarantine]]\ntest = 'a'",
        "[[quarantine]]\ntest='a'\nreason='r'\nowner='o'\nuntil='soon'",
        "[[quarantine]]\ntest='a'\nreason='r'\nowner=''\nuntil=2026-12-31",
        "[[other]]\n",
        "\x00",
    ],
)
def test_what_is_no_quarantine_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "quarantine.toml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=r"quarantine\.toml"):
        read_quarantine(path)


def test_a_file_without_a_test_is_its_own_group() -> None:
    assert group_and_name("tests/test_a.py::test_b") == ("tests.test_a", "test_b")
    assert group_and_name("test_a.py") == ("test_a", "test_a.py")


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
