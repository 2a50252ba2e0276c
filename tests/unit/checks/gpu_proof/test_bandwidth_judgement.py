# SPDX-License-Identifier: Apache-2.0
"""Whether rates are those of the card and its link."""

import pytest
from ci_doctor.checks.gpu_proof.bandwidth_judgement import (
    MeasuredRates,
    PcieLink,
    judge_bandwidth,
)

from ci_doctor.checks.check import CheckResult, CheckStatus

GB = 1e9
GEN5_X16 = PcieLink(generation=5, lanes=16, most_lanes=16)


def judge(
    name: str = "NVIDIA H200",
    *,
    within: float = 4300 * GB,
    host: float = 55 * GB,
    link: PcieLink = GEN5_X16,
) -> CheckResult:
    rates = MeasuredRates(
        size=2**31, within=(within / 2, within), to_device=(host,), to_host=(host,), link=None
    )
    return judge_bandwidth(f"GPU 0 ({name})", name, rates, link)


def rules(result: CheckResult) -> list[str]:
    return [each.finding.rule.removeprefix("doctor/") for each in result.problems]


@pytest.mark.parametrize(
    ("name", "within"),
    [
        pytest.param("NVIDIA H200", 4300, id="as-measured-on-one"),
        pytest.param("NVIDIA A10", 480, id="ecc-in-the-memory-itself"),
        pytest.param("Tesla V100-SXM2-32GB", 780, id="an-old-name"),
    ],
)
def test_a_healthy_card_is_ok(name: str, within: float) -> None:
    assert judge(name, within=within * GB).status is CheckStatus.OK


def test_slow_memory_is_a_warning_with_both_figures_and_their_source() -> None:
    result = judge(within=1200 * GB)

    assert rules(result) == ["memory-bandwidth-low"]
    summary = result.problems[0].finding.summary
    assert "1,200 GB/s, 25 % of 4,800 GB/s (NVIDIA H200 Tensor Core GPU datasheet)" in summary


def test_an_unlisted_card_is_unknown_with_its_figures() -> None:
    result = judge("NVIDIA H200 MIG 1g.18gb", within=500 * GB)

    assert result.status is CheckStatus.UNKNOWN
    assert result.figures["copy_bytes_per_s"] == 500 * GB


def test_four_of_sixteen_lanes_are_a_warning_even_if_the_driver_calls_four_the_most() -> None:
    result = judge(host=13 * GB, link=PcieLink(generation=5, lanes=4, most_lanes=4))

    assert rules(result) == ["pcie-link-narrow"]


def test_a_full_link_with_slow_copies_is_a_warning() -> None:
    assert rules(judge(host=11 * GB)) == ["host-copy-slow"]


def test_the_driver_says_how_many_lanes_an_unlisted_card_has() -> None:
    link = PcieLink(generation=4, lanes=8, most_lanes=8)

    assert rules(judge("NVIDIA GeForce RTX 4060", host=13 * GB, link=link)) == []


def test_an_unknown_link_is_unknown() -> None:
    link = PcieLink(generation=None, lanes=None, most_lanes=None)

    assert judge(host=1 * GB, link=link).status is CheckStatus.UNKNOWN


def test_a_link_carries_what_the_standard_says() -> None:
    assert GEN5_X16.rate == pytest.approx(63.0 * GB, rel=0.001)
    assert PcieLink(generation=3, lanes=16, most_lanes=16).rate == pytest.approx(
        15.75 * GB, rel=0.001
    )


def test_a_copy_that_fits_into_the_caches_says_nothing_of_the_memory() -> None:
    """On a GPU that is nearly full: it may seem too fast, or too slow."""
    rates = MeasuredRates(
        size=64 * 2**20, within=(500 * GB,), to_device=(55 * GB,), to_host=(55 * GB,), link=None
    )

    result = judge_bandwidth("GPU 0 (NVIDIA H200)", "NVIDIA H200", rates, GEN5_X16)

    assert (rules(result), result.status) == ([], CheckStatus.UNKNOWN)
