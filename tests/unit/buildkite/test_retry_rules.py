# SPDX-License-Identifier: Apache-2.0
"""What a pipeline retries and lets pass, by any exit codes: valid for Buildkite, and never a failure of the change."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import encode

from ci_doctor.buildkite.steps import rules_for
from ci_doctor.config.decoding import ExitCodes, read_exit_codes
from ci_doctor.config.loading import Config
from ci_doctor.errors import ConfigError
from tests.support.pipeline_steps import schema_problems

NAMES = ExitCodes.__struct_fields__
CODES = st.integers(1, 124).filter(lambda code: code not in {2, 70}) | st.just(255)


def codes_of(**codes: int) -> dict[str, int]:
    """The codes of a repository that has these of its own."""
    config = Config(path=Path("ci-doctor.toml"), tables={"exit-codes": codes})
    return read_exit_codes(config, {})[0]


def step_of(**codes: int) -> dict[str, Any]:
    """A step with the rules for these codes, read back from the YAML and valid."""
    rules = yaml.safe_load(rules_for(codes_of(**codes)).yaml)
    step: dict[str, Any] = {"command": "ci-doctor correctness", **rules}
    assert schema_problems(step) == []
    return step


def retried(step: dict[str, Any]) -> list[int]:
    """The exit statuses that are retried."""
    return [rule["exit_status"] for rule in step["retry"]["automatic"] if "exit_status" in rule]


def test_infrastructure_is_retried_twice_and_a_lost_agent_once() -> None:
    step = step_of()

    assert step["retry"]["automatic"] == [
        {"exit_status": 75, "limit": 2},
        {"exit_status": -1, "signal_reason": "none", "limit": 1},
        {"signal_reason": "agent_stop", "limit": 1},
        {"signal_reason": "agent_refused", "limit": 1},
        {"signal_reason": "stack_error", "limit": 1},
    ]
    assert step["soft_fail"] == [{"exit_status": 85}]


def test_what_is_for_programs_is_what_the_yaml_says() -> None:
    facts = json.loads(encode(rules_for(codes_of())))

    assert yaml.safe_load(facts["yaml"]) == {
        "retry": {"automatic": facts["retry"]},
        "soft_fail": facts["soft_fail"],
    }


def test_own_codes_are_used_and_the_price_of_255_is_said() -> None:
    step = step_of(infra=255, nondeterministic=90)

    assert step["retry"]["automatic"][0] == {"exit_status": 255, "limit": 2}
    assert step["soft_fail"] == [{"exit_status": 90}]
    assert (
        "255 is also the code of a command killed by a signal"
        in rules_for(codes_of(infra=255)).yaml
    )


@pytest.mark.parametrize("code", [1, 3, 7])
def test_the_code_of_failing_tests_is_not_retried_even_if_it_is_infras(code: int) -> None:
    step = step_of(regression=10, failed=11, flaky=12, infra=code)

    assert retried(step) == [-1]


@pytest.mark.parametrize(
    ("codes", "owner"),
    [
        ({"nondeterministic": 86}, "inconclusive, void"),
        ({"nondeterministic": 75}, "infra"),
        ({"nondeterministic": 7}, "flaky"),
        ({"nondeterministic": 5}, "tests that fail"),
        ({"nondeterministic": 124}, "timeout(1)"),
        ({"nondeterministic": 255}, "a command killed by a signal"),
        ({"nondeterministic": 94}, "an agent that got no lock"),
    ],
)
def test_nothing_else_passes_with_nondeterministic(codes: dict[str, int], owner: str) -> None:
    assert "soft_fail" not in step_of(**codes)
    facts = rules_for(codes_of(**codes))
    assert owner in facts.left_out["nondeterministic"]
    assert facts.left_out["nondeterministic"] in facts.yaml


def test_a_code_that_infra_shares_is_named() -> None:
    text = rules_for(codes_of(infra=86)).yaml

    assert "86 is also the code of inconclusive: that is retried, too." in text


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, CODES)))
def test_no_codes_make_a_rule_about_a_failure(codes: dict[str, int]) -> None:
    try:
        chosen = codes_of(**codes)
    except ConfigError:
        return
    step = step_of(**codes)
    failures = {chosen["regression"], chosen["failed"], 1}
    passing = {rule["exit_status"] for rule in step.get("soft_fail", [])}

    assert not failures & {*retried(step), *passing}
    assert not {chosen["void"], chosen["inconclusive"], chosen["infra"]} & passing
    assert not {0, 125} & {*retried(step), *passing}
