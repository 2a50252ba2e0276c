# SPDX-License-Identifier: Apache-2.0

import json

import pytest

from ci_doctor.identity.identity import Identity, differences, is_fact, variables

HERE = Identity.of(
    {"driver": "550.54", "vllm": "0.9.1"}, {"model.revision": "no cache"}, {"kernel": "6.1"}
)


def test_the_digest_depends_on_facts_and_on_what_is_unknown_and_on_nothing_else() -> None:
    same = Identity.of({"vllm": "0.9.1", "driver": "550.54"}, {"model.revision": "another"})
    all_known = Identity.of({"driver": "550.54", "vllm": "0.9.1"})
    less_known = Identity.of({"driver": "550.54"}, {"model.revision": "", "vllm": ""})

    assert HERE.digest() == same.digest()
    assert HERE.digest() not in {all_known.digest(), less_known.digest()}


def test_every_difference_is_told_by_name() -> None:
    there = Identity.of({"driver": "560.35", "flash-attn": "2.8.3"}, {"model.revision": "no cache"})

    assert [each.describe() for each in differences(HERE, there)] == [
        "driver 550.54 -> 560.35",
        "flash-attn absent -> 2.8.3",
        "vllm 0.9.1 -> absent",
    ]


def test_unknown_against_known_is_a_difference_of_knowledge() -> None:
    there = Identity.of({**HERE.facts, "model.revision": "abc"})

    (found,) = differences(HERE, there)

    assert (found.knowledge, found.left, found.right) == (True, "unknown: no cache", "abc")
    assert HERE.digest() != there.digest()


def test_what_neither_side_knows_is_no_difference() -> None:
    assert differences(HERE, Identity.of(HERE.facts, {"model.revision": "another reason"})) == ()


def test_a_name_that_is_unknown_is_no_fact() -> None:
    assert Identity.of({"driver": "550"}, {"driver": "two say different things"}).facts == {}


def test_an_empty_value_is_written_as_one() -> None:
    assert Identity.of({"env.NCCL_ALGO": ""}).facts == {"env.NCCL_ALGO": "''"}


def test_of_two_identities_the_later_says_what_holds() -> None:
    both = HERE.also(Identity.of({"vllm": "0.9.2"}, {"driver": "gone"}))

    assert (dict(both.facts), dict(both.unknown)) == (
        {"vllm": "0.9.2"},
        {"driver": "gone", "model.revision": "no cache"},
    )


def test_bytes_that_are_no_text_can_be_written() -> None:
    assert json.dumps(dict(Identity.of({"argv": "a\udcffb"}).facts)).isascii()
    Identity.of({"argv": "a\udcffb"}).facts["argv"].encode("utf-8")


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
