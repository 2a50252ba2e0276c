# SPDX-License-Identifier: Apache-2.0
"""The text of a baseline: what it accepts, and how it is updated."""

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.imports.analyse.hazard import HazardKind
from ci_doctor.imports.baseline import HEADER, Baseline, race_id, read_baseline, updated
from tests.unit.imports.hazards_of import a_hazard, an_import

LAZY = a_hazard(HazardKind.REPLACED, "lazy")
CYCLE = a_hazard(HazardKind.CYCLE, "b.x", "a")
PACKAGE = a_hazard(HazardKind.SUBMODULE, "pkg", "pkg.sub")


def test_the_line_of_a_race_names_neither_places_nor_threads() -> None:
    elsewhere = a_hazard(
        HazardKind.CYCLE, "a", "b.x", first=an_import("t", "a", 7), second=an_import("u", "b.x", 8)
    )

    assert race_id(CYCLE) == race_id(elsewhere) == "cycle a+b.x"
    assert race_id(LAZY) == "self-replacing lazy"
    assert race_id(PACKAGE) == "submodule-order pkg+pkg.sub"


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        ("cycle a+b.x", True),
        ("  cycle\ta+b.x  # upstream issue 7", True),
        ("cycle a+b.*", True),
        ("cycle *", True),
        ("cycle a", False),
        ("submodule-order *", False),
        ("# cycle a+b.x", False),
        ("", False),
    ],
)
def test_a_line_accepts_the_races_that_it_matches(line: str, accepted: bool) -> None:
    baseline = read_baseline(f"{HEADER}\n{line}\n", "known.txt")

    assert (baseline.entry_of(CYCLE) is not None) is accepted


@pytest.mark.parametrize("line", ["circle a+b", "cycle", "cycle a b", "import-race/cycle a+b"])
def test_a_line_that_is_no_race_is_refused_with_its_place(line: str) -> None:
    with pytest.raises(UsageError, match=r"known\.txt:2"):
        read_baseline(f"{HEADER}\n{line}\n", "known.txt")


def test_entries_that_accept_nothing_are_named() -> None:
    baseline = read_baseline("cycle a+*\nself-replacing gone\n", "")

    assert baseline.unused([CYCLE, LAZY]) == ("self-replacing gone",)


def test_an_update_adds_removes_and_keeps_comments() -> None:
    text = f"{HEADER}\n# ours\ncycle a+*  # known\nself-replacing gone\n"

    new = updated(read_baseline(text, ""), [CYCLE, PACKAGE, LAZY])

    assert new.text.splitlines() == [
        HEADER,
        "# ours",
        "cycle a+*  # known",
        "self-replacing lazy",
        "submodule-order pkg+pkg.sub",
    ]
    assert updated(new, [CYCLE, PACKAGE, LAZY]) == new, "a second time changes nothing"


def test_a_new_baseline_begins_with_its_header() -> None:
    assert updated(Baseline(), []).text == f"{HEADER}\n"
