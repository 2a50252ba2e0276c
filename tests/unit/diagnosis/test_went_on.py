# SPDX-License-Identifier: Apache-2.0
"""What a script went on from is not named: whole logs, as a job prints them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.diagnosis.diagnosis import diagnose, load_rules

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
