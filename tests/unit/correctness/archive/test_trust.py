# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.archive.trust import build_of, trusted

MAIN = {
    "BUILDKITE": "true",
    "BUILDKITE_JOB_ID": "0190-j",
    "BUILDKITE_BRANCH": "main",
    "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
    "BUILDKITE_PULL_REQUEST": "false",
    "BUILDKITE_BUILD_NUMBER": "42",
    "BUILDKITE_COMMIT": "0123456789abcdef",
    "BUILDKITE_BUILD_URL": "https://buildkite.com/o/p/builds/42",
}


def test_a_build_of_the_default_branch_is_trusted() -> None:
    assert trusted(MAIN) == (True, "this is a build of the default branch main")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"BUILDKITE": ""}, "no Buildkite job"),
        ({"BUILDKITE_PULL_REQUEST": "17"}, "pull request 17"),
        ({"BUILDKITE_PULL_REQUEST": ""}, "unknown whether"),
        ({"BUILDKITE_BRANCH": "topic"}, "branch topic is not"),
        (
            {"BUILDKITE_BRANCH": "", "BUILDKITE_PIPELINE_DEFAULT_BRANCH": ""},
            "is not the default branch",
        ),
    ],
)
def test_nothing_else_is(change: dict[str, str], why: str) -> None:
    answer, reason = trusted({**MAIN, **change})

    assert not answer
    assert why in reason


def test_a_build_is_named_so_that_a_person_finds_it() -> None:
    assert build_of(MAIN) == "build 42 of main at 0123456789ab, https://buildkite.com/o/p/builds/42"
    assert build_of({}) == "a local run"
