# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.identity.variables import is_fact, variables


def test_the_effective_value_is_the_fact() -> None:
    found = variables(
        {
            "VLLM_BATCH_INVARIANT": "1",
            "NCCL_ALGO": "Ring",
            "PYTHONHASHSEED": "0",
            "NCCL_DETERMINISTIC": "1",
        }
    )

    assert found.facts["env.PYTHONHASHSEED"] == "0"
    assert found.facts["env.NCCL_ALGO"].startswith("Ring (overwritten: vLLM")
    assert "env.NCCL_DETERMINISTIC" not in found.facts
    assert "no effect" in found.noted["env.NCCL_DETERMINISTIC"]


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("VLLM_ATTENTION_BACKEND", True),
        ("OMP_NUM_THREADS", True),
        ("LMCACHE_CHUNK_SIZE", True),
        ("VLLM_API_KEY", False),
        ("TRITON_CACHE_DIR", False),
        ("VLLM_CACHE_ROOT", False),
        ("VLLM_PORT", False),
        ("NCCL_DEBUG", False),
        ("BUILDKITE_JOB_ID", False),
        ("HOME", False),
    ],
)
def test_what_decides_bits_is_a_fact_and_where_things_lie_is_none(name: str, fact: bool) -> None:
    assert is_fact(name) is fact
