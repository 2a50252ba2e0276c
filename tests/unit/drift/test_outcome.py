# SPDX-License-Identifier: Apache-2.0
from ci_doctor.drift.compare import compare, diff_outcome, snapshot_outcome, verdict_on_request
from ci_doctor.drift.snapshot import PackageSnapshot, Snapshot
from ci_doctor.model.outcome import Outcome, Verdict
from tests.support.snapshots import a_snapshot


def outcome(before: Snapshot, after: Snapshot, *, show_all: bool = False) -> Outcome:
    return diff_outcome(compare(before, after), show_all=show_all)


def test_differences_stand_by_what_they_may_have_done() -> None:
    before = a_snapshot({"torch": "1", "x": "1"}, facts={"kernel": "1"})
    after = a_snapshot({"torch": "2", "x": "2"}, facts={"kernel": "2"})

    diff = outcome(before, after)

    assert diff.verdict is None
    assert diff.summary == (
        "3 differences: 1 breaks comparability, 1 can explain failures, 1 informational"
    )
    assert [(table.title, table.rows[0].label) for table in diff.tables] == [
        ("Breaks comparability", "torch 1 -> 2"),
        ("Can explain failures", "x 1 -> 2"),
        ("Informational", "kernel 1 -> 2"),
    ]


def test_many_differences_are_folded_unless_all_are_asked_for() -> None:
    before = a_snapshot({f"p{number:02}": "1" for number in range(20)})
    after = a_snapshot({f"p{number:02}": "2" for number in range(20)})

    (folded,) = outcome(before, after).tables
    (whole,) = outcome(before, after, show_all=True).tables

    assert (len(folded.rows), len(whole.rows)) == (16, 20)
    assert folded.rows[-1].label == "and 5 more: p15, p16, p17, p18, p19"


def test_what_was_not_compared_is_said() -> None:
    snapshot = a_snapshot(has_contents=False)

    (table,) = outcome(snapshot, snapshot).tables

    assert table.title == "Not compared"


def test_equal_environments_do_not_differ() -> None:
    diff = outcome(a_snapshot(), a_snapshot())

    assert (diff.summary, diff.tables) == ("the environments do not differ", ())


def test_what_is_not_known_is_not_equal() -> None:
    diff = outcome(a_snapshot(facts={"driver": "1"}), a_snapshot(unknown={"driver": "it hangs"}))

    assert diff.summary == "no difference is known; 1 facts are known to one side only"
    assert diff.tables[0].title == "Known to one side only"


def test_on_request_a_difference_that_matters_fails_and_ignorance_decides_nothing() -> None:
    def verdict(before: Snapshot, after: Snapshot) -> Verdict | None:
        return verdict_on_request(compare(before, after))

    driver = a_snapshot(facts={"driver": "1"})
    assert verdict(driver, driver) is None
    assert verdict(driver, a_snapshot(facts={"driver": "2"})) is Verdict.FAILED
    assert verdict(driver, a_snapshot(unknown={"driver": "?"})) is Verdict.INCONCLUSIVE
    kernel = a_snapshot(facts={"kernel": "1"})
    assert verdict(kernel, a_snapshot(facts={"kernel": "2"})) is None
    assert verdict(kernel, a_snapshot(unknown={"kernel": "?"})) is None


def test_a_snapshot_says_what_it_holds_and_what_it_could_not_read() -> None:
    package = PackageSnapshot(version="1", unknown={"files": "there is no RECORD with hashes"})
    snapshot = a_snapshot({"x": package}, unknown={"driver": "it hangs"}, system={"bash": "5"})

    recorded = snapshot_outcome(snapshot, "a.json")

    labels = {table.title: [row.label for row in table.rows] for table in recorded.tables}
    assert labels == {
        "Recorded": ["./.venv/bin/python", "system"],
        "Unknown": ["driver", "files of x"],
    }


def test_what_is_unknown_for_one_reason_is_one_line() -> None:
    package = PackageSnapshot(version="1", unknown={"files": "there is no RECORD with hashes"})
    snapshot = a_snapshot({"a": package, "b": package, "c": package})

    table = snapshot_outcome(snapshot, None).tables[1]

    assert [row.label for row in table.rows] == ["files of a and 2 more"]
