# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import UsageError
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('proof = [{ metric = "hits", log = "x" }]', "either `metric` or `log`"),
        ('proof = [{ log = "(" }]', "is no regular expression"),
        ('proof = [{ metric = "hits", service = "vlm" }]', "starts no service `vlm`"),
        ('reset = "reset"', "`reset` is not the path of a URL"),
        ('reset = "//elsewhere/reset"', "is not the path of a URL"),
    ],
)
def test_a_proof_or_a_reset_that_cannot_work_is_a_mistake(
    tmp_path: Path, line: str, message: str
) -> None:
    services = BOTH.replace('candidate = { services = ["kv", "vllm"], env = { MODE = "own" } }', "")
    text = f'{services}[correctness.candidate]\nservices = ["kv", "vllm"]\n{line}\n'
    with pytest.raises(UsageError) as caught:
        planned(tmp_path, text)
    assert message in caught.value.message
