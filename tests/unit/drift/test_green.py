# SPDX-License-Identifier: Apache-2.0

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.drift.green import GreenRun, label, latest_green, since_green
from ci_doctor.drift.snapshot import SNAPSHOT_FILE, PackageSnapshot, Snapshot, write_snapshot
from ci_doctor.model.outcome import About, Failure, Verdict
from ci_doctor.render import json
from tests.support import builders
from tests.support.snapshots import a_snapshot


def a_report(
    directory: Path,
    verdict: Verdict | None = Verdict.PASS,
    *,
    step: str | None = "serving",
    started_at: str = "2026-11-20T08:00:00.000Z",
    exit_code: int = 0,
    command: str = "launch",
    error: Failure | None = None,
) -> Path:
    directory.mkdir(parents=True)
    about = About(step=step, build=41)
    known = {"about": about, "started_at": started_at, "exit_code": exit_code}
    report = builders.a_report(verdict, command=command, error=error, **known)
    (directory / "report.json").write_text(json.render(report))
    write_snapshot(a_snapshot(about=about, taken_at=started_at), directory / SNAPSHOT_FILE)
    return directory


def reason(path: Path, step: str | None = None) -> str:
    run = latest_green(path, step)
    assert isinstance(run, str)
    return run


def source(path: Path, step: str | None = None) -> str:
    run = latest_green(path, step)
    assert isinstance(run, GreenRun), run
    return run.source


def test_a_snapshot_that_was_named_and_a_command_that_ended_with_0_are_green(
    tmp_path: Path,
) -> None:
    file = tmp_path / "green.json"
    write_snapshot(a_snapshot(), file)
    directory = a_report(tmp_path / "report", None, command="run")

    assert source(file, "any") == str(file)
    assert source(directory) == str(directory)


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FLAKY])
def test_a_report_directory_is_green_by_its_verdict(tmp_path: Path, verdict: Verdict) -> None:
    directory = a_report(tmp_path / "report", verdict)

    run = latest_green(directory, None)

    assert isinstance(run, GreenRun)
    assert label(run) == "2026-11-20, build 41"


@pytest.mark.parametrize("verdict", [each for each in Verdict if each not in {"pass", "flaky"}])
def test_a_run_that_was_not_green_is_refused(tmp_path: Path, verdict: Verdict) -> None:
    directory = a_report(tmp_path / "report", verdict)

    assert reason(directory) == f"the run in {directory} ended {verdict}"


def test_a_run_that_judged_nothing_is_refused(tmp_path: Path) -> None:
    assert "has no verdict" in reason(a_report(tmp_path / "a", None, command="env"))
    assert "has no verdict" in reason(a_report(tmp_path / "b", None, command="run", exit_code=1))
    error = Failure(message="interrupted")
    assert "ended by an error" in reason(a_report(tmp_path / "c", None, error=error))
    assert "exit code 3" in reason(a_report(tmp_path / "d", exit_code=3))


def test_of_many_the_newest_green_one_of_the_step_counts(tmp_path: Path) -> None:
    a_report(tmp_path / "40" / "launch", started_at="2026-11-19T08:00:00.000Z")
    a_report(tmp_path / "41" / "launch", started_at="2026-11-20T08:00:00.000Z")
    a_report(tmp_path / "42" / "launch", Verdict.FAILED, started_at="2026-11-21T08:00:00.000Z")
    a_report(tmp_path / "43" / "launch", step="other", started_at="2026-11-22T08:00:00.000Z")

    assert source(tmp_path, "serving") == str(tmp_path / "41" / "launch")
    assert source(tmp_path) == str(tmp_path / "43" / "launch")


def test_a_green_one_without_a_snapshot_gives_way_to_an_older_one(tmp_path: Path) -> None:
    a_report(tmp_path / "old", started_at="2026-11-19T08:00:00.000Z")
    (a_report(tmp_path / "new") / SNAPSHOT_FILE).unlink()

    assert source(tmp_path, "serving") == str(tmp_path / "old")


def test_snapshots_beside_each_other_are_many_too(tmp_path: Path) -> None:
    write_snapshot(a_snapshot(taken_at="2026-11-19T08:00:00.000Z"), tmp_path / "a.json")
    write_snapshot(a_snapshot(taken_at="2026-11-20T08:00:00.000Z"), tmp_path / "b.json")
    (tmp_path / "c.json").write_text("{}")

    assert source(tmp_path) == str(tmp_path / "b.json")


def test_why_none_of_many_counts_is_said(tmp_path: Path) -> None:
    a_report(tmp_path / "1", Verdict.FAILED)
    a_report(tmp_path / "2", Verdict.FAILED)
    a_report(tmp_path / "3", step="other")
    a_report(tmp_path / "4", step=None)
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "report.json").write_text("no report")

    assert reason(tmp_path, "serving") == (
        f"no run in {tmp_path} is one to compare with: 1 cannot be read, or has no snapshot, "
        "2 ended failed, 1 of no known step, 1 of the step other"
    )


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    assert reason(tmp_path / "none") == f"{tmp_path / 'none'} does not exist"
    assert reason(tmp_path) == f"{tmp_path} holds no snapshot and no report"
    directory = a_report(tmp_path / "report")
    (directory / SNAPSHOT_FILE).unlink()
    assert reason(directory) == f"{directory} holds no {SNAPSHOT_FILE}"
    write_snapshot(a_snapshot(), tmp_path / SNAPSHOT_FILE)
    assert "may not have been green" in reason(tmp_path)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(os.mkfifo, id="pipe"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), id="endless"),
        pytest.param(sparse, id="sparse"),
        pytest.param(lambda path: path.write_text("[" * 100_000), id="nested"),
    ],
)
@pytest.mark.parametrize("name", ["green.json", "run/report.json"])
def test_what_cannot_be_read_to_its_end_is_no_green_run(
    make: Callable[[Path], object], name: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    make(file)
    path = file if name == "green.json" else file.parent

    assert isinstance(latest_green(path, None), str)
    assert isinstance(latest_green(tmp_path, None), str)


def green(snapshot: Snapshot) -> GreenRun:
    return GreenRun(snapshot=snapshot, source="green.json")


def test_a_sentence_names_what_changed_the_most_suspicious_first() -> None:
    before = a_snapshot({"transformers": "5.4.0"}, facts={"driver": "580.1"}, about=About(build=41))
    after = a_snapshot({"transformers": "5.5.0"}, facts={"driver": "580.2"})

    section = since_green(green(before), after)

    assert section.line == (
        "since the last green run: driver 580.1 -> 580.2, transformers 5.4.0 -> 5.5.0"
    )
    assert section.table.title == "Since the last green run (2026-11-20, build 41)"
    assert [row.label for row in section.table.rows] == [
        section.line,
        "driver 580.1 -> 580.2",
        "transformers 5.4.0 -> 5.5.0",
    ]
    assert section.facts.unknown is None


def test_without_a_green_run_it_is_unknown_and_not_unchanged() -> None:
    section = since_green("x does not exist", a_snapshot())

    assert section.line == "since the last green run: unknown: x does not exist"
    assert [row.label for row in section.table.rows] == ["unknown: x does not exist"]
    assert (section.facts.unknown, section.facts.drift) == ("x does not exist", None)


KERNEL = a_snapshot(facts={"kernel": "6.1"})
DRIVER = a_snapshot(facts={"driver": "580.1"})
HANGS = a_snapshot(unknown={"driver": "it hangs"})
A, B = (
    a_snapshot({"x": PackageSnapshot(version="1.0.0", files={"x/a.py": name})}) for name in "AB"
)


@pytest.mark.parametrize(
    ("before", "after", "words", "row"),
    [
        (a_snapshot(), a_snapshot(), "no difference", None),
        (
            DRIVER,
            HANGS,
            "no difference is known, and 1 facts",
            "driver now unknown: it hangs (the other side: 580.1)",
        ),
        (
            KERNEL,
            a_snapshot(facts={"kernel": "6.8"}),
            "only 1 informational differences",
            "kernel 6.1 -> 6.8",
        ),
        (A, B, "x 1.0.0: the same version, other bytes: x/a.py", None),
    ],
    ids=["equal", "one side does not know", "informational", "other bytes"],
)
def test_the_sentence_says_no_more_than_is_known(
    before: Snapshot, after: Snapshot, words: str, row: str | None
) -> None:
    section = since_green(green(before), after)

    assert section.line.startswith(f"since the last green run: {words}")
    assert row is None or section.table.rows[1].label == row


def test_a_hundred_changes_are_fifteen_lines_and_a_count() -> None:
    before = a_snapshot({f"p{number}": "1" for number in range(100)} | {"torch": "2.8.0"})
    after = a_snapshot({f"p{number}": "2" for number in range(100)} | {"torch": "2.9.0"})

    section = since_green(green(before), after)

    labels = [row.label for row in section.table.rows]
    assert len(labels) == 17
    assert labels[1] == "torch 2.8.0 -> 2.9.0"
    assert labels[-1].startswith("and 86 more: p21, p22, ")
    assert section.line.endswith("p0 1 -> 2, p1 1 -> 2, p10 1 -> 2, and 97 more")
    assert section.facts.drift is not None
    assert len(section.facts.drift.changes) == 101
