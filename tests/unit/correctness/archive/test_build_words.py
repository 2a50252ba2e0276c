# SPDX-License-Identifier: Apache-2.0
"""The build that an archived start comes from, in words."""

from ci_doctor.correctness.archive.build_words import build_of

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


def test_a_build_is_named_so_that_a_person_finds_it() -> None:
    assert build_of(MAIN) == "build 42 of main at 0123456789ab, https://buildkite.com/o/p/builds/42"
    assert build_of({}) == "a local run"
