# SPDX-License-Identifier: Apache-2.0
"""Which builds may write what others trust."""

import pytest

from ci_doctor.buildkite.job import is_default_branch_build

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


def test_a_build_of_the_default_branch_is_is_default_branch_build() -> None:
    assert is_default_branch_build(MAIN) == (True, "this is a build of the default branch main")


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
    answer, reason = is_default_branch_build({**MAIN, **change})

    assert not answer
    assert why in reason
