# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.drift.variables import kept_variables
from ci_doctor.system.secrets.redaction import Redactor

SECRET = "hunter2-hunter2-hunter2"


def kept(environ: dict[str, str], places: dict[str, str] | None = None) -> dict[str, str | None]:
    return kept_variables(environ, Redactor.from_environment(environ), places or {})


@pytest.mark.parametrize(
    "name",
    [
        "VLLM_USE_V1",
        "NCCL_ALGO",
        "CUDA_VISIBLE_DEVICES",
        "CUBLAS_WORKSPACE_CONFIG",
        "PYTHONPATH",
        "LD_LIBRARY_PATH",
        "TOKENIZERS_PARALLELISM",
        "LC_ALL",
        "TZ",
    ],
)
def test_what_may_decide_a_result_keeps_its_value(name: str) -> None:
    assert kept({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "VLLM_API_KEY",
        "LMCACHE_PASSWORD",
        "NCCL_SECRET",
        "SGLANG_AUTH",
        "VLLM_S3_CREDENTIALS",
        "TORCH_LICENSE",
        "HOME",
        "USER",
        "BUILDKITE_AGENT_ACCESS_TOKEN",
        "MY_SETTING",
    ],
)
def test_anything_else_is_kept_by_its_name_alone(name: str) -> None:
    assert kept({name: SECRET}) == {name: None}


@pytest.mark.parametrize(
    "value",
    [
        f"redis://:{SECRET}@cache:6379",
        f"--token={SECRET}",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        f'{{"password": "{SECRET}"}}',
        "x" * 5000,
    ],
)
def test_a_value_that_holds_a_secret_is_not_kept_in_any_part(value: str) -> None:
    assert kept({"LMCACHE_CONFIG": value}) == {"LMCACHE_CONFIG": None}


def test_a_number_of_tokens_is_no_secret() -> None:
    assert kept({"VLLM_MAX_TOKENS": "8192"}) == {"VLLM_MAX_TOKENS": "8192"}
    assert kept({"VLLM_MAX_TOKENS": SECRET}) == {"VLLM_MAX_TOKENS": None}


def test_a_secret_under_another_name_is_not_kept() -> None:
    environ = {"MY_TOKEN": SECRET, "VLLM_EXTRA": f"a {SECRET} b"}

    assert kept(environ) == {"MY_TOKEN": None, "VLLM_EXTRA": None}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("http://user:pass@proxy:3128/x?y", "http://proxy:3128"),
        ("http://user@proxy", "http://proxy"),
        ("proxy:3128", "proxy:3128"),
        ("user:pass@proxy:3128", "proxy:3128"),
        ("", "''"),
        ("http://[", None),
    ],
)
@pytest.mark.parametrize("name", ["HTTP_PROXY", "https_proxy", "ALL_PROXY"])
def test_a_proxy_keeps_nothing_but_its_place(name: str, value: str, shown: str | None) -> None:
    assert kept({name: value}) == {name: shown}


def test_no_proxy_keeps_its_value() -> None:
    assert kept({"no_proxy": "localhost,10.0.0.0/8"}) == {"no_proxy": "localhost,10.0.0.0/8"}


def test_the_directories_of_a_job_do_not_count() -> None:
    places = {"/home/ci/builds/7": ".", "/home/ci": "~"}
    environ = {"PYTHONPATH": "/home/ci/builds/7/src:/home/ci/builds/77:/home/ci"}

    assert kept(environ, places) == {"PYTHONPATH": "./src:~/builds/77:~"}


def test_an_empty_value_is_not_empty() -> None:
    assert kept({"CUDA_VISIBLE_DEVICES": ""}) == {"CUDA_VISIBLE_DEVICES": "''"}


def test_bytes_that_are_no_text_can_be_written() -> None:
    assert kept({"PYTHONPATH": "a\udcffb"}) == {"PYTHONPATH": "a\\udcffb"}
