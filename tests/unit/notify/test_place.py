# SPDX-License-Identifier: Apache-2.0
"""Each attempt of a step has one identity, and no other step has the same."""

from ci_doctor.notify.place import place_of

JOB = {
    "BUILDKITE": "true",
    "BUILDKITE_JOB_ID": "j1",
    "BUILDKITE_PIPELINE_SLUG": "serving",
    "BUILDKITE_BUILD_URL": "https://buildkite.com/acme/serving/builds/812",
    "BUILDKITE_STEP_KEY": "e2e",
    "BUILDKITE_LABEL": ":gpu: e2e",
}
ACTIONS = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_WORKFLOW": "tests",
    "GITHUB_JOB": "e2e",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "acme/serving",
    "GITHUB_RUN_ID": "42",
}


def test_a_step_of_buildkite_has_its_label_and_the_address_of_its_job() -> None:
    place = place_of(JOB)

    assert place.step == ":gpu: e2e"
    assert place.url == "https://buildkite.com/acme/serving/builds/812#j1"


def test_a_retry_has_the_same_identity_and_a_job_of_a_matrix_another_one() -> None:
    again = {**JOB, "BUILDKITE_JOB_ID": "j2", "BUILDKITE_RETRY_COUNT": "1"}
    other = {**JOB, "BUILDKITE_LABEL": ":gpu: e2e 3.12"}

    assert place_of(again).identity == place_of(JOB).identity
    assert place_of(other).identity != place_of(JOB).identity


def test_a_job_of_github_actions_has_the_address_of_its_run() -> None:
    place = place_of(ACTIONS)

    assert (place.step, place.url) == ("e2e", "https://github.com/acme/serving/actions/runs/42")


def test_a_name_of_ones_own_tells_the_jobs_of_a_matrix_apart() -> None:
    one, other = place_of(ACTIONS, "e2e 3.11"), place_of(ACTIONS, "e2e 3.12")

    assert one.step == "e2e 3.11"
    assert one.identity != other.identity


def test_elsewhere_there_is_a_place_without_an_address() -> None:
    assert place_of({}).url is None
