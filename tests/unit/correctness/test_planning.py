# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.config.loading import load_config
from ci_doctor.correctness.planning import (
    budget_of,
    determinism_findings,
    parse_arm_variables,
    plan,
    read_settings,
)
from ci_doctor.correctness.settings import Arm, Plan
from ci_doctor.errors import ConfigError, UsageError
from ci_doctor.load.requests import Request

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
NOTHING: Mapping[Arm, Mapping[str, str]] = {arm: {} for arm in Arm}
BOTH = """
[services.kv]
command = "sleep {port}"
[services.vllm]
command = "sleep {port}"
env = { MODE = "shared" }
[correctness]
baseline = { services = ["vllm"] }
candidate = { services = ["kv", "vllm"], env = { MODE = "own" } }
"""


def planned(
    directory: Path,
    text: str = BOTH,
    *,
    commands: Mapping[Arm, str | None] | None = None,
    variables: Mapping[Arm, Mapping[str, str]] = NOTHING,
    environment: Mapping[str, str] = ENVIRONMENT,
    **flags: object,
) -> Plan:
    (directory / "ci-doctor.toml").write_text(text)
    loaded = load_config(directory / "ci-doctor.toml", directory)
    none: dict[Arm, str | None] = dict.fromkeys(Arm)
    settings, _ = read_settings(loaded, environment, flags, {**none, **(commands or {})}, variables)
    request = Request(id="r0", path="/", body={}, line=1)
    budget, _ = budget_of(settings, environment, 100.0)
    return plan(
        settings, loaded, (request,), budget=budget, directory=directory, environment=environment
    )


def test_an_arm_is_its_services_with_its_own_variables_on_top(tmp_path: Path) -> None:
    made = planned(tmp_path)
    assert made.arms[Arm.BASELINE].names == ("vllm",)
    assert made.arms[Arm.CANDIDATE].names == ("kv", "vllm")
    assert made.arms[Arm.BASELINE].specs["vllm"].env == {"MODE": "shared"}
    assert made.arms[Arm.CANDIDATE].specs["vllm"].env == {"MODE": "own"}


def test_a_command_takes_the_place_of_services_and_a_variable_goes_on_top(tmp_path: Path) -> None:
    variables = {Arm.BASELINE: {}, Arm.CANDIDATE: {"MODE": "typed", "MORE": "1"}}
    made = planned(tmp_path, commands={Arm.BASELINE: "sleep {port} 9"}, variables=variables)
    assert made.arms[Arm.BASELINE].names == ("baseline",)
    assert made.arms[Arm.BASELINE].specs["baseline"].command == "sleep {port} 9"
    assert made.arms[Arm.CANDIDATE].specs["vllm"].env == {"MODE": "typed", "MORE": "1"}


def test_ready_is_for_the_service_that_answers_and_start_timeout_for_all(tmp_path: Path) -> None:
    specs = planned(tmp_path, ready="/v1/models", start_timeout="7s").arms[Arm.CANDIDATE].specs
    assert (specs["kv"].ready, specs["vllm"].ready) == ("/health", "/v1/models")
    assert specs["kv"].start_timeout_s() == specs["vllm"].start_timeout_s() == 7


@pytest.mark.parametrize("budget", ["1ms", "1s", "3s", "6s", "60s", "25m"])
def test_the_deadline_leaves_room_for_stopping_and_for_the_report(
    tmp_path: Path, budget: str
) -> None:
    made = planned(tmp_path, budget=budget)
    end = 100.0 + seconds_above_zero(budget, "budget")
    assert made.deadline + made.grace_s < end
    assert end - made.deadline <= 12
    assert 0 < made.grace_s <= 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the baseline is missing"),
        ("[correctness.baseline]\n[correctness.candidate]", "the baseline is missing"),
        (BOTH.replace('"kv", "vllm"]', '"kv", "vlm"]'), "no service is named `vlm`"),
        (BOTH.replace("candidate = { services", 'candidate = { command = "sleep {port}", services'), "both `services` and `command`"),
        (BOTH.replace("sleep {port}", "slep {port}"), "command not found: slep"),
        (BOTH.replace("[correctness]", '[correctness]\nbudget = "soon"'), "budget: not a duration"),
        (BOTH.replace("[correctness]", "[correctness]\nrequest_timeout = 0"), "request_timeout must be more than 0"),
        (BOTH.replace('command = "sleep {port}"', 'command = "sleep {port}"\nstart_timeout = "x"', 1), "not a duration"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_found_before_anything_is_started(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        planned(tmp_path, text)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[correctness]\nbaseline = "vllm serve"', 2),
        ("[correctness.candidate]\nenv = 3", 2),
        ("[correctness.candidate]\nprof = []", 2),
        ("[services.vllm]\ncomand = 3", 2),
    ],
)
def test_a_wrong_key_is_named_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    commands = dict.fromkeys(Arm, "sleep {port}")
    with pytest.raises(ConfigError, match=rf"ci-doctor\.toml:{line}: "):
        planned(tmp_path, text, commands=commands)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("candidate:X", "not ARM:NAME=VALUE"),
        ("X=1", "not ARM:NAME=VALUE"),
        ("candidate:=1", "not ARM:NAME=VALUE"),
        ("candidat:X=1", "unknown arm `candidat`"),
    ],
)
def test_a_variable_without_an_arm_or_a_name_is_refused(word: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arm_variables([word])
    assert said in caught.value.message


def test_a_value_may_hold_anything() -> None:
    parsed = parse_arm_variables(
        ["candidate:X=a=b:c", "candidate:Y=", "baseline:X=1", "baseline:X=2"]
    )
    assert parsed == {Arm.BASELINE: {"X": "2"}, Arm.CANDIDATE: {"X": "a=b:c", "Y": ""}}


def test_arms_under_different_determinism_variables_are_a_finding(tmp_path: Path) -> None:
    variables = {Arm.BASELINE: {}, Arm.CANDIDATE: {"VLLM_BATCH_INVARIANT": "1"}}
    (finding,) = determinism_findings(planned(tmp_path, variables=variables))
    assert "VLLM_BATCH_INVARIANT" in finding.summary
    assert finding.evidence[0].excerpt == "VLLM_BATCH_INVARIANT: 'unset' against '1'"


def test_a_variable_that_one_arm_inherits_and_the_other_names_is_none(tmp_path: Path) -> None:
    variables = {Arm.BASELINE: {}, Arm.CANDIDATE: {"VLLM_BATCH_INVARIANT": "1"}}
    environment = {**ENVIRONMENT, "VLLM_BATCH_INVARIANT": "1"}
    assert (
        determinism_findings(planned(tmp_path, variables=variables, environment=environment)) == ()
    )
