# SPDX-License-Identifier: Apache-2.0
"""Whether the values of `[doctor]`, and the checks of a repository, can be used."""

from typing import Any

import pytest

from ci_doctor.checks.settings import DoctorSettings, OwnCheck, require_readable, require_runnable
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


def place(*keys: str) -> str:
    return f"ci-doctor.toml:{'.'.join(keys)}"


def with_timeout(timeout: str) -> OwnCheck:
    return OwnCheck(command="true", timeout=timeout)


@pytest.mark.parametrize(
    ("name", "own", "message"),
    [
        ("a", OwnCheck(command=""), "a.command: a.command: the command is empty"),
        ("a", OwnCheck(command=[]), "a.command: a.command: the command is empty"),
        ("a", OwnCheck(command="sh 'x"), "a.command: a.command: No closing quotation"),
        ("a", with_timeout("0s"), "a.timeout: a.timeout: the timeout must be more than 0"),
        ("a", with_timeout("soon"), "a.timeout: a.timeout: not a duration: 'soon'"),
        ("a", with_timeout("11m"), "a.timeout: a.timeout: the timeout must be at most 10 min"),
        ("a b", OwnCheck(command="true"), "a b: `a b` is no name of a check"),
    ],
)
def test_the_error_names_the_key_and_its_place(name: str, own: OwnCheck, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        require_runnable({"fine": OwnCheck(command="true"), name: own}, place)

    assert raised.value.message.startswith(f"ci-doctor.toml:{message}")


def test_what_can_be_run_is_accepted() -> None:
    require_runnable({"gpu-7.clock": OwnCheck(command=["sh", "-c", "true"], timeout=1.5)}, place)
