# SPDX-License-Identifier: Apache-2.0
"""Whether GPUs exchange memory as they are connected."""

from ci_doctor.checks.gpu_proof.peer_judgement import PeerCopy, judge_peers

from ci_doctor.checks.check import CheckResult, CheckStatus

NVLINK = {(0, 1): "NV18", (1, 0): "NV18"}
PCIE = {(0, 1): "PHB", (1, 0): "PHB"}
SAME = {0: 0, 1: 1}


def copies(*, has_access: bool = True, is_equal: bool = True) -> list[PeerCopy]:
    return [
        PeerCopy(source=0, target=1, has_access=has_access, is_equal=True, rate=390e9),
        PeerCopy(source=1, target=0, has_access=has_access, is_equal=is_equal, rate=385e9),
    ]


def rules(result: CheckResult) -> list[str]:
    return [each.finding.rule for each in result.problems]


def test_access_over_nvlink_is_ok_with_the_rates() -> None:
    result = judge_peers(copies(), NVLINK, SAME)

    assert result.status is CheckStatus.OK
    assert result.figures["gpu0_to_gpu1_bytes_per_s"] == 390_000_000_000


def test_nvlink_without_access_is_one_warning_for_all_pairs() -> None:
    result = judge_peers(copies(has_access=False), NVLINK, SAME)

    assert rules(result) == ["doctor/peer-access-missing"]
    assert "GPU 0 to 1, GPU 1 to 0" in result.problems[0].finding.summary


def test_pcie_without_access_is_ok() -> None:
    assert judge_peers(copies(has_access=False), PCIE, SAME).status is CheckStatus.OK


def test_no_access_and_no_topology_is_unknown() -> None:
    assert judge_peers(copies(has_access=False), {}, {}).status is CheckStatus.UNKNOWN


def test_other_bytes_are_an_error_whatever_the_connection() -> None:
    result = judge_peers(copies(is_equal=False), PCIE, SAME)

    assert rules(result) == ["doctor/peer-copy-wrong"]
    assert result.status is CheckStatus.ERROR


def test_numbers_of_torch_and_of_the_driver_may_differ() -> None:
    connections = {(6, 7): "NV18", (7, 6): "NV18", (0, 1): "PHB", (1, 0): "PHB"}
    result = judge_peers(copies(has_access=False), connections, {0: 7, 1: 6})

    assert rules(result) == ["doctor/peer-access-missing"]
