# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.caches.effect import factor_differences


def test_the_factor_in_which_two_directories_differ_is_named() -> None:
    saved = b'{"env": {"VLLM_USE_V1": true, "HOST": "10.0.0.1"}, "code_hash": "a", "l": [1]}'
    here = (
        b'{"env": {"VLLM_USE_V1": true, "HOST": "10.0.0.2"}, "code_hash": "a", "l": [1], "n": {}}'
    )

    differences = factor_differences(saved, here)

    assert [each.describe() for each in differences] == [
        "env.HOST 10.0.0.1 -> 10.0.0.2",
        "n absent -> {}",
    ]


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 5000])
def test_what_is_no_object_of_factors_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError):
        factor_differences(content, b"{}")
