# SPDX-License-Identifier: Apache-2.0
from ci_doctor.drift.green_runs import GreenRun, NoGreenRun
from ci_doctor.drift.since_green import since_green
from ci_doctor.drift.snapshot import PackageSnapshot, Snapshot
from ci_doctor.model.about import About
from tests.support.snapshots import a_snapshot


def green(snapshot: Snapshot) -> GreenRun:
    return GreenRun(snapshot=snapshot, source="green.json")


def test_a_sentence_names_what_changed_the_most_suspicious_first() -> None:
    before = a_snapshot({"transformers": "5.4.0"}, facts={"driver": "580.1"}, about=About(build=41))
    after = a_snapshot({"transformers": "5.5.0"}, facts={"driver": "580.2"})

    section = since_green(green(before), after)

    assert section.line == (
        "since the last green run: driver 580.1 to 580.2, transformers 5.4 to 5.5"
    )
    assert section.table.title == "Since the last green run (2026-11-20, build 41)"
    assert [row.label for row in section.table.rows] == [
        section.line,
        "driver 580.1 -> 580.2",
        "transformers 5.4.0 -> 5.5.0",
    ]
    assert section.facts.unknown is None


def test_without_a_green_run_it_is_unknown_and_not_unchanged() -> None:
    section = since_green(NoGreenRun(reason="x does not exist"), a_snapshot())

    assert section.line == "since the last green run: unknown: x does not exist"
    assert [row.label for row in section.table.rows] == ["unknown: x does not exist"]
    assert (section.facts.unknown, section.facts.drift) == ("x does not exist", None)


def test_no_difference_is_said_as_such() -> None:
    section = since_green(green(a_snapshot()), a_snapshot())

    assert section.line == "since the last green run: no difference"


def test_what_one_side_does_not_know_is_not_said_to_be_equal() -> None:
    before = a_snapshot(facts={"driver": "580.1"})
    after = a_snapshot(unknown={"driver": "it hangs"})

    section = since_green(green(before), after)

    assert "no difference is known, and 1 facts" in section.line
    assert section.table.rows[1].label == ("driver now unknown: it hangs (the other side: 580.1)")


def test_informational_changes_are_not_named_in_the_sentence() -> None:
    before = a_snapshot(facts={"kernel": "6.1"})
    after = a_snapshot(facts={"kernel": "6.8"})

    section = since_green(green(before), after)

    assert section.line == "since the last green run: only 1 informational differences"
    assert section.table.rows[1].label == "kernel 6.1 -> 6.8"


def test_a_hundred_changes_are_fifteen_lines_and_a_count() -> None:
    before = a_snapshot({f"p{number}": "1" for number in range(100)} | {"torch": "2.8.0"})
    after = a_snapshot({f"p{number}": "2" for number in range(100)} | {"torch": "2.9.0"})

    section = since_green(green(before), after)

    labels = [row.label for row in section.table.rows]
    assert len(labels) == 17
    assert labels[1] == "torch 2.8.0 -> 2.9.0"
    assert labels[-1].startswith("and 86 more: p21, p22, ")
    assert section.line.endswith("p0 1 to 2, p1 1 to 2, p10 1 to 2, and 97 more")
    assert section.facts.drift is not None
    assert len(section.facts.drift.changes) == 101


def test_other_bytes_are_named_in_the_sentence() -> None:
    before = a_snapshot({"x": PackageSnapshot(version="1.0.0", files={"x/a.py": "A"})})
    after = a_snapshot({"x": PackageSnapshot(version="1.0.0", files={"x/a.py": "B"})})

    assert since_green(green(before), after).line.endswith("other bytes in x 1.0")
