# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ci_doctor.diagnosis.diagnosis import diagnose, load_rules
from ci_doctor.diagnosis.log_rules import Role
from ci_doctor.diagnosis.rank import Candidate, calibration, features, probability, rank
from ci_doctor.diagnosis.tracebacks import ExceptionStanding
from tests.support.candidates import a_candidate
from tests.support.candidates import a_candidate as candidate


def first_line(*candidates: Candidate) -> int:
    return rank(candidates)[0].line.number


def test_the_earliest_of_equal_causes_is_first() -> None:
    assert first_line(candidate(9), candidate(3), candidate(5)) == 3


def test_a_cause_stands_before_an_earlier_symptom() -> None:
    assert first_line(candidate(1, Role.SYMPTOM), candidate(9)) == 9


def test_a_named_cause_stands_before_an_earlier_mere_error() -> None:
    assert first_line(candidate(1, Role.ERROR), candidate(9)) == 9


def test_the_step_that_failed_counts_more() -> None:
    outside = candidate(1, in_failed_step=False)
    assert first_line(outside, candidate(9, in_failed_step=True)) == 9


def test_what_a_good_run_holds_too_explains_nothing() -> None:
    known = candidate(1, in_good_run=True)
    assert first_line(known, candidate(9, Role.ERROR, in_good_run=False)) == 9


def test_among_logs_the_earlier_time_is_first() -> None:
    late = candidate(1, at_s=200.0)
    early = candidate(50, log=1, at_s=100.0)
    assert rank([late, early])[0].log == 1


def test_a_log_without_times_comes_after_one_with_times() -> None:
    timeless = candidate(1)
    timed = candidate(50, log=1, at_s=100.0)
    assert rank([timeless, timed])[0].log == 1


def test_nothing_has_no_rank() -> None:
    assert rank([]) == []


def test_what_stands_in_a_run_that_passed_comes_after_what_does_not() -> None:
    expected = candidate(1, Role.FAILURE, in_passed_run=True)
    assert first_line(expected, candidate(9, Role.ERROR)) == 9


def sure(**changes: Any) -> float:
    ranked = rank([a_candidate(100, **changes)])
    return probability(features(ranked), calibration().coefficients)


def test_every_coefficient_belongs_to_a_feature() -> None:
    assert set(calibration().coefficients) == set(features(rank([a_candidate(1)])))


def test_a_named_cause_alone_is_called_a_cause() -> None:
    assert sure(in_failed_step=True) > calibration().least


@pytest.mark.parametrize(
    "changes",
    [{"log_ended_well": True}, {"in_passed_run": True}, {"repeats": 5000}],
)
def test_what_speaks_against_a_failure_makes_it_less_sure(changes: dict[str, Any]) -> None:
    assert sure(**changes) < sure()


def test_a_log_that_ended_well_has_no_cause() -> None:
    assert sure(log_ended_well=True) < calibration().least


def test_a_rival_far_away_takes_the_lead_and_one_beside_it_does_not() -> None:
    first = a_candidate(100)
    beside = structs.replace(a_candidate(105, role=Role.FAILURE))
    far = structs.replace(a_candidate(900, role=Role.FAILURE))
    assert features(rank([first, beside]))["lead"] == 1.0
    assert features(rank([first, far]))["lead"] < 1.0


def test_a_tolerated_exception_is_known_as_such() -> None:
    ranked: list[Candidate] = rank([a_candidate(1, standing=ExceptionStanding.TOLERATED)])
    assert features(ranked)["tolerated"] == 1.0


Named = Callable[..., int | None]

ASSERTION = ("tests/test_a.py:4: in test_a", "E   AssertionError: assert 3 == 4")
DOCKER = "Error response from daemon: No such container: db"


@pytest.fixture
def named(tmp_path: Path) -> Named:
    def line(*lines: str) -> int | None:
        path = tmp_path / "job.log"
        path.write_text("\n".join(lines) + "\n")
        best = diagnose([str(path)], load_rules()).best
        return None if best is None else best.line

    return line


def test_a_container_that_is_not_there_to_remove_is_no_root(named: Named) -> None:
    assert named(DOCKER, "starting", *ASSERTION) == 4


def test_it_is_the_root_if_nothing_else_went_wrong(named: Named) -> None:
    assert named("$ docker stop db", DOCKER, "ERROR: Job failed: exit code 1") == 2


@pytest.mark.parametrize(
    "next_command",
    [
        "\x1b[32;1m$ python -m pytest\x1b[0;m",
        "+ python -m pytest",
        "\x1b_bk;t=1700000000000\x07--- python -m pytest",
        "+++ :python: tests",
    ],
)
def test_a_command_that_the_next_one_follows_did_not_end_the_job(
    named: Named, next_command: str
) -> None:
    failed = "fatal: unable to access 'https://a.b/c.git/': The requested URL returned error: 503"
    assert named(failed, next_command, *ASSERTION) == 4


def test_a_line_of_a_diff_is_no_next_command(named: Named) -> None:
    expected = ("E   AssertionError: lists differ", "- expected text", "+ actual text")
    assert named(*expected, "error: 1 test failed") == 1


def test_the_end_of_a_script_is_no_next_command(named: Named) -> None:
    failed = "OSError: [Errno 28] No space left on device: '/cache/a'"
    assert named(failed, "+ rm -rf work", "+ exit 1", "error: the job failed") == 1


def test_a_retry_that_helped_is_no_root(named: Named) -> None:
    failed = "curl: (6) Could not resolve host: example.org"
    assert named(failed, "Retrying in 5 s", "saved 3 files", *ASSERTION) == 5


def test_a_retry_that_did_not_help_is_one(named: Named) -> None:
    failed = "curl: (6) Could not resolve host: example.org"
    assert named(failed, "Retrying in 5 s", failed, "giving up", "error: no model") == 1


def test_a_checkout_of_github_that_tries_again_did_not_fail(named: Named) -> None:
    root = named(
        "##[group]Run actions/checkout@v4",
        "##[error]fatal: unable to access 'https://a.b/c/': The requested URL returned error: 503",
        "The process '/usr/bin/git' failed with exit code 128",
        "Waiting 13 seconds before trying again",
        "[command]/usr/bin/git fetch",
        "HEAD is now at 118a724 Merge",
        "##[group]Run make test",
        *ASSERTION,
        "##[error]Process completed with exit code 1.",
    )
    assert root == 9


def test_a_clean_up_after_the_failure_is_no_root(named: Named) -> None:
    assert named("+ pytest", *ASSERTION, "+ docker rm -f db", DOCKER) == 3
