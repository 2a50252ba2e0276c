# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.config.loading import seconds_above_zero
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import ConfigError, UsageError
from tests.unit.correctness.plans import BOTH, planned


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
