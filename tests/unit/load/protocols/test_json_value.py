# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.asking import control_requests
from ci_doctor.load.protocols.json_value import JSON_VALUE
from ci_doctor.load.requests import Request


def test_the_order_of_keys_is_no_difference_and_every_value_is_one() -> None:
    one = JSON_VALUE.read({"a": 1, "b": [2.5]}, None)
    assert one.digest == JSON_VALUE.read({"b": [2.5], "a": 1}, None).digest
    assert one.digest != JSON_VALUE.read({"a": 1, "b": [2.6]}, None).digest


@pytest.mark.parametrize("value", [[], {}, 0, "", None, [1]])
def test_every_json_value_is_an_answer(value: object) -> None:
    assert not JSON_VALUE.read(value, None).empty


def test_no_request_of_it_is_a_control_because_its_answer_may_depend_on_nothing() -> None:
    request = Request(id="a", path="/x", body={"text": "some words"}, line=1, protocol="json")
    assert list(control_requests([request], {"a": (3, 10)})) == []
