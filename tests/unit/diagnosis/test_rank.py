# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.diagnosis.log_rules import LogRule, Role
from ci_doctor.diagnosis.log_text import CleanLine, TextLine
from ci_doctor.diagnosis.rank import Candidate, calibration, features, probability, rank
from ci_doctor.diagnosis.tracebacks import ExceptionStanding
from tests.support.diagnoses import diagnosed


def candidate(line: int, role: Role = Role.CAUSE, **fields: Any) -> Candidate:
    """A candidate in that line of the first log, by a rule of that role; `fields` are its own."""
    values: dict[str, Any] = {
        "log": 0,
        "line": TextLine(line, line * 10, b"x"),
        "clean": CleanLine(text="x", message="x"),
        "rule": LogRule(id=f"a/{role}", role=role, literals=("x",), regex="x"),
        "fields": {},
    }
    return Candidate(**{**values, **fields})


@pytest.mark.parametrize(
    ("candidates", "first"),
    [
        pytest.param([candidate(9), candidate(3), candidate(5)], 3, id="earliest of equal causes"),
        pytest.param([candidate(1, Role.SYMPTOM), candidate(9)], 9, id="cause before a symptom"),
        pytest.param([candidate(1, Role.ERROR), candidate(9)], 9, id="cause before a mere error"),
        pytest.param(
            [candidate(1, in_failed_step=False), candidate(9, in_failed_step=True)],
            9,
            id="step that failed",
        ),
        pytest.param(
            [candidate(1, in_good_run=True), candidate(9, Role.ERROR, in_good_run=False)],
            9,
            id="not in a good run too",
        ),
        pytest.param(
            [candidate(1, Role.FAILURE, in_passed_run=True), candidate(9, Role.ERROR)],
            9,
            id="not in a run that passed",
        ),
    ],
)
def test_the_candidate_that_explains_most_is_first(candidates: list[Candidate], first: int) -> None:
    assert rank(candidates)[0].line.number == first


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


def sure(**changes: Any) -> float:
    ranked = rank([candidate(100, **changes)])
    return probability(features(ranked), calibration().coefficients)


def test_every_coefficient_belongs_to_a_feature() -> None:
    assert set(calibration().coefficients) == set(features(rank([candidate(1)])))


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
    first = candidate(100)
    beside = candidate(105, role=Role.FAILURE)
    far = candidate(900, role=Role.FAILURE)
    assert features(rank([first, beside]))["lead"] == 1.0
    assert features(rank([first, far]))["lead"] < 1.0


def test_a_tolerated_exception_is_known_as_such() -> None:
    ranked: list[Candidate] = rank([candidate(1, standing=ExceptionStanding.TOLERATED)])
    assert features(ranked)["tolerated"] == 1.0


ASSERTION = ("tests/test_a.py:4: in test_a", "E   AssertionError: assert 3 == 4")
DOCKER = "Error response from daemon: No such container: db"
REFUSED = "fatal: unable to access 'https://a.b/c.git/': The requested URL returned error: 503"
UNRESOLVED = "curl: (6) Could not resolve host: example.org"
FULL = "OSError: [Errno 28] No space left on device: '/cache/a'"
DIFF = ("E   AssertionError: lists differ", "- expected text", "+ actual text")
GITHUB = (
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


ROOTS = {
    "a container that is not there to remove": ((DOCKER, "starting", *ASSERTION), 4),
    "the same where nothing else went wrong": (
        ("$ docker stop db", DOCKER, "ERROR: Job failed: exit code 1"),
        2,
    ),
    "before the next command of GitLab": (
        (REFUSED, "\x1b[32;1m$ python -m pytest\x1b[0;m", *ASSERTION),
        4,
    ),
    "before the next command of a shell": ((REFUSED, "+ python -m pytest", *ASSERTION), 4),
    "before the next group of Buildkite": (
        (REFUSED, "\x1b_bk;t=1700000000000\x07--- python -m pytest", *ASSERTION),
        4,
    ),
    "before an open group of Buildkite": ((REFUSED, "+++ :python: tests", *ASSERTION), 4),
    "a line of a diff is no next command": ((*DIFF, "error: 1 test failed"), 1),
    "the end of a script is no next command": (
        (FULL, "+ rm -rf work", "+ exit 1", "error: the job failed"),
        1,
    ),
    "a retry that helped": ((UNRESOLVED, "Retrying in 5 s", "saved 3 files", *ASSERTION), 5),
    "a retry that did not help": (
        (UNRESOLVED, "Retrying in 5 s", UNRESOLVED, "giving up", "error: no model"),
        1,
    ),
    "a checkout of GitHub that tries again": (GITHUB, 9),
    "a clean-up after the failure": (("+ pytest", *ASSERTION, "+ docker rm -f db", DOCKER), 3),
}


@pytest.mark.parametrize(("lines", "root"), ROOTS.values(), ids=ROOTS)
def test_the_root_is_what_ended_the_job(tmp_path: Path, lines: tuple[str, ...], root: int) -> None:
    best = diagnosed(tmp_path, "\n".join(lines) + "\n").best
    assert best is not None
    assert best.line == root
