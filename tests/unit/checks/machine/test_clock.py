# SPDX-License-Identifier: Apache-2.0
import os
import time
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.machine.clock import CHECK, problems_of, time_zone
from ci_doctor.checks.machine.clock_state import ClockState
from ci_doctor.checks.machine.dates import Dated
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context

KEPT = ClockState(is_synchronised=True, estimated_error_s=0.001)
# Of a virtual machine without NTP.
LEFT_ALONE = ClockState(is_synchronised=False, estimated_error_s=16.0)
NOW = 1_800_000_000.0
HOUR = 3600.0


def findings(*dated: Dated, state: ClockState | None = LEFT_ALONE) -> list[tuple[str, Severity]]:
    return [
        (each.finding.summary, each.finding.severity) for each in problems_of(state, dated, NOW)
    ]


def test_a_clock_before_the_commit_is_an_error() -> None:
    commit = Dated(name="the commit that is checked out", at=NOW + 48 * HOUR)

    assert findings(commit) == [
        ("the clock is 48 h 00 min behind the commit that is checked out", Severity.ERROR)
    ]


def test_a_file_from_the_future_warns_because_an_archive_may_have_made_it() -> None:
    file = Dated(name="the time of /job/a", at=NOW + 48 * HOUR, is_sure=False)

    assert [severity for _, severity in findings(file)] == [Severity.WARNING]


def test_the_surest_of_several_dates_is_named() -> None:
    file = Dated(name="the time of /job/a", at=NOW + 99 * HOUR, is_sure=False)
    commit = Dated(name="the commit", at=NOW + 2 * HOUR)

    assert findings(file, commit) == [("the clock is 2 h 00 min behind the commit", Severity.ERROR)]


@pytest.mark.parametrize(
    ("behind_s", "severity"),
    [(-5.0, []), (299.0, []), (301.0, [Severity.WARNING]), (3700.0, [Severity.ERROR])],
)
def test_a_clock_that_is_minutes_off_warns(behind_s: float, severity: list[Severity]) -> None:
    commit = Dated(name="the commit", at=NOW + behind_s)

    assert [severity for _, severity in findings(commit)] == severity
    assert findings(commit, state=None) == findings(commit)


def test_a_commit_of_the_future_warns_only_if_the_clock_is_kept_right() -> None:
    commit = Dated(name="the commit", at=NOW + 48 * HOUR)

    assert findings(commit, state=KEPT) == [
        (
            "the clock is 48 h 00 min behind the commit, and a program keeps the clock right",
            Severity.WARNING,
        )
    ]


def test_a_clock_that_its_own_keeper_doubts_warns() -> None:
    doubtful = ClockState(is_synchronised=True, estimated_error_s=12.0)

    assert findings(state=doubtful) == [("the clock may be off by 12.0 s", Severity.WARNING)]


def test_a_clock_that_a_hypervisor_may_keep_is_no_problem() -> None:
    assert findings(state=LEFT_ALONE) == []


def test_the_clock_of_this_machine_is_right(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path))

    assert result.status is CheckStatus.OK


def test_files_that_git_has_written_in_the_future_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    index = tmp_path / ".git" / "index"
    index.write_text("")
    later = time.time() + 86400
    os.utime(index, (later, later))

    result = CHECK.run(check_context(tmp_path))

    # A kept clock is right, so there the file is wrong.
    assert result.status in {CheckStatus.ERROR, CheckStatus.WARNING}
    assert str(index) in result.problems[0].finding.summary


@pytest.mark.parametrize(
    ("target", "zone"),
    [("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"), ("/etc/own", time.tzname[0])],
)
def test_the_time_zone_is_named(tmp_path: Path, target: str, zone: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "localtime").symlink_to(target)

    assert time_zone(check_context(tmp_path, environ={}, root=tmp_path)) == zone


def test_tz_stands_above_the_file(tmp_path: Path) -> None:
    assert time_zone(check_context(tmp_path, environ={"TZ": "UTC"})) == "UTC"
