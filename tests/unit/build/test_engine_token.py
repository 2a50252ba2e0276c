# SPDX-License-Identifier: Apache-2.0
"""The token for Test Engine: the suite's own, else one that the agent gives this job."""

import os
from pathlib import Path

from ci_doctor.build.engine_token import engine_token
from tests.support import stand_in_agent
from tests.support.stand_in_api import TOKEN


def environ(folder: Path, version: str) -> dict[str, str]:
    stand_in_agent.install(folder / "bin", folder / "log", version=version)
    return {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "BUILDKITE": "true",
        "BUILDKITE_JOB_ID": "j1",
        "BUILDKITE_ORGANIZATION_SLUG": "acme",
    }


def test_the_suites_own_token_comes_first_and_without_any_there_is_none(tmp_path: Path) -> None:
    assert engine_token({"BUILDKITE_ANALYTICS_TOKEN": f" {TOKEN}\n"}, "serving") == TOKEN
    assert engine_token({"PATH": ""}, "serving") is None
    assert engine_token(environ(tmp_path, "3.110.0"), None) is None


def test_the_agent_gives_a_token_for_the_suite(tmp_path: Path) -> None:
    token = engine_token(environ(tmp_path, "3.110.0"), "serving")

    assert token is not None
    assert token.count(".") == 2
    (call,) = stand_in_agent.calls(tmp_path / "log")
    audience = "https://buildkite.com/organizations/acme/analytics/suites/serving"
    assert call["audience"] == audience


def test_an_agent_that_knows_no_tokens_gives_none(tmp_path: Path) -> None:
    assert engine_token(environ(tmp_path, "3.40.0"), "serving") is None
