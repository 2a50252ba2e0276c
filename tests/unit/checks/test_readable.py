# SPDX-License-Identifier: Apache-2.0
"""Values of `[doctor]` that no check could use are refused, and not taken for no limit."""

from typing import Any

import pytest

from ci_doctor.checks.settings import DoctorSettings, require_readable
from ci_doctor.errors import ConfigError


def read(**values: Any) -> None:
    require_readable(DoctorSettings(**values), lambda key: f"ci-doctor.toml:2 ({key})")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("min_free", "lots", '"lots" is no size'),
        ("min_free", -5, "-5 is no size"),
        ("shared_memory", "1 parsec", "is no size"),
        ("gpu_memory_free", 80.0, "80 is no share"),
        ("gpu_memory_free", float("nan"), "is no share"),
        ("hosts", ["localhost", ""], "is no name of a host"),
        ("hosts", ["https://huggingface.co"], "is no name of a host"),
        ("entry_points", ["vllm --help", ""], "a command is empty"),
        ("entry_points", ['python -c "x'], "No closing quotation"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused_with_its_place(
    key: str, value: object, reason: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        read(**{key: value})

    assert raised.value.message.startswith(f"ci-doctor.toml:2 ({key}): {key}: ")
    assert reason in raised.value.message


def test_values_that_can_be_read_are_fine() -> None:
    read()
    read(min_free="2TiB", shared_memory=0, gpu_memory_free=1.0)
    read(hosts=["huggingface.co", "::1", "fe80::1%eth0", "a_b"], entry_points=["vllm --help"])
