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
        "HF_TOKEN",
        "VLLM_API_KEY",
        "VLLM_MAX_TOKENS",
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLLM_HEADERS", "Basic dXNlcjpodW50ZXIyCg=="),
        ("VLLM_EXTRA", "c2VjcmV0LWJ5dGVzLWZvci10aGUtdGVzdC1vbmx5"),
        ("SGLANG_EXTRA", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"),
        ("VLLM_EXTRA", '{"name": "kJ8sYv2LqZw9RtXbN4PcMd7HfGaUe3oTi5rE1y"}'),
        ("LMCACHE_STORE", "Server=x;Uid=sa;Pwd=hunter2;"),
        ("LMCACHE_STORE", "https://a.example.org/c?sv=1&sig=hunter2"),
        ("LMCACHE_REMOTE_URL", "redis://hunter2@cache:6379"),
        ("PYTHONPATH", "/opt/plugins:https://hunter2@host/x"),
        ("VLLM_SIGNING_SALT", "hunter2"),
        ("no_proxy", "hunter2@localhost"),
    ],
)
def test_what_may_be_a_secret_without_a_name_that_says_so_is_not_kept(
    name: str, value: str
) -> None:
    assert kept({name: value}) == {name: None}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "value") for name in ("VLLM_USE_V1", "NCCL_ALGO", "CUBLAS_WORKSPACE_CONFIG")),
        *((name, "value") for name in ("PYTHONPATH", "TOKENIZERS_PARALLELISM", "LC_ALL", "TZ")),
        ("CUDA_VISIBLE_DEVICES", "GPU-8c2f1a34-5b6c-7d8e-9f01-23456789abcd,MIG-0f1e2d3c-1111-2222"),
        ("VLLM_PRECOMPILED_WHEEL_COMMIT", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"),
        ("PATH", "/nix/store/9f86d081884c7d659a2feaa0c55ad015-python3/bin:/usr/bin"),
        ("LD_LIBRARY_PATH", "/usr/local/nvidia/lib:/usr/local/nvidia/lib64:"),
        ("VLLM_ATTENTION_BACKEND", "FLASHINFER_MLA"),
        ("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "True"),
        ("NVIDIA_REQUIRE_CUDA", "cuda>=12.8 brand=unknown,driver>=470,driver<471"),
        ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:512"),
        ("VLLM_MODEL", "meta-llama/Meta-Llama-3.1-8B-Instruct-FP8-dynamic"),
        ("LMCACHE_REMOTE_URL", "redis://cache:6379"),
        ("NCCL_IB_HCA", "mlx5_0:1,mlx5_1:1"),
        ("TORCH_LOGS", "dynamo,recompiles,graph_breaks,perf_hints"),
        ("TF_DETERMINISTIC_OPS", "1234567890123456789"),
        ("VLLM_MAX_TOKENS", "8192"),
        ("no_proxy", "localhost,10.0.0.0/8"),
    ],
)
def test_what_may_decide_a_result_keeps_its_value_as_it_is_written(name: str, value: str) -> None:
    assert kept({name: value}) == {name: value}


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


def test_the_directories_of_a_job_do_not_count() -> None:
    places = {"/home/ci/builds/7": ".", "/home/ci": "~"}
    environ = {"PYTHONPATH": "/home/ci/builds/7/src:/home/ci/builds/77:/home/ci"}

    assert kept(environ, places) == {"PYTHONPATH": "./src:~/builds/77:~"}


def test_an_empty_value_is_not_empty_and_bytes_that_are_no_text_can_be_written() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": "a\udcffb"}
    assert kept(environ) == {"CUDA_VISIBLE_DEVICES": "''", "PYTHONPATH": "a\\udcffb"}
