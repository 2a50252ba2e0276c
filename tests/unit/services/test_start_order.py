# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.errors import UsageError
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.services.start_order import start_order


def spec(*needs: str) -> ServiceSpec:
    return ServiceSpec(command="serve {port}", needs=list(needs))


def test_a_service_comes_after_what_it_needs_and_only_once() -> None:
    specs = {"c": spec("a", "b"), "b": spec("a"), "a": spec(), "unused": spec("nowhere")}
    assert start_order(specs, ["c", "a"]) == ("a", "b", "c")


def test_names_keep_their_order_otherwise() -> None:
    assert start_order({"a": spec(), "b": spec()}, ["b", "a"]) == ("b", "a")


def test_a_circle_is_told_in_full() -> None:
    with pytest.raises(UsageError, match="b -> c -> b"):
        start_order({"a": spec("b"), "b": spec("c"), "c": spec("b")}, ["a"])


def test_an_unknown_need_is_told_with_the_nearest_name() -> None:
    with pytest.raises(UsageError) as caught:
        start_order({"vllm": spec("lmcach"), "lmcache": spec()}, ["vllm"])
    assert 'service "vllm" needs "lmcach"' in caught.value.message
    assert "lmcache" in (caught.value.hint or "")


def test_no_name_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="no service is named"):
        start_order({"a": spec()}, [])
