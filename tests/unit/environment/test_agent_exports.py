# SPDX-License-Identifier: Apache-2.0
"""The exports in a Buildkite job's own environment."""

from ci_doctor.environment.agent_exports import set_on_agent


def test_outside_a_job_with_a_job_api_nothing_is_tried() -> None:
    assert set_on_agent({"A": "1"}, {}) == ()
    assert set_on_agent({"A": "1"}, {"BUILDKITE_AGENT_JOB_API_SOCKET": "/s"}) == ()
