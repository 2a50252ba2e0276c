# SPDX-License-Identifier: Apache-2.0
"""Whose memory came back, from readings of the whole GPU."""

import pytest
from ci_doctor.checks.gpu_proof.memory_back_judgement import (
    Holders,
    MemoryReadings,
    UsedMemory,
    holders_of,
    judge_memory_back,
)

from ci_doctor.checks.check import CheckStatus

GIB = 2**30
NOBODY: Holders = frozenset()
OURS: Holders = frozenset({"812 4500"})
SERVER: Holders = frozenset({"77 61000"})


def readings(
    *after: tuple[float, float, int],
    used_before: int = 0,
    held: int = 4 * GIB,
    holders: tuple[Holders | None, Holders | None, Holders | None] = (NOBODY, OURS, NOBODY),
) -> MemoryReadings:
    used = [UsedMemory(asked_s=each[0], answered_s=each[1], used=each[2]) for each in after]
    return MemoryReadings(
        label="GPU 0",
        used_before=used_before,
        held=held,
        after=tuple(used),
        holders_before=holders[0],
        holders_during=holders[1],
        holders_after=holders[2],
    )


def test_memory_that_is_back_at_once_is_ok_with_the_time_at_most() -> None:
    result = judge_memory_back(readings((0.01, 0.12, 4)))

    assert result.status is CheckStatus.OK
    assert result.figures["back_within_s"] == 0.12


def test_an_nvidia_smi_that_answers_slowly_does_not_make_the_memory_late() -> None:
    assert judge_memory_back(readings((0.1, 14.0, 0))).status is CheckStatus.OK


def test_memory_that_comes_back_late_is_a_warning_with_both_bounds() -> None:
    result = judge_memory_back(readings((0.1, 0.2, 4 * GIB), (9.0, 9.1, 4 * GIB), (9.2, 9.3, 0)))

    assert [each.finding.rule for each in result.problems] == ["doctor/gpu-memory-late"]
    assert (result.figures["back_after_s"], result.figures["back_within_s"]) == (9.0, 9.3)


def test_memory_that_stays_is_an_error_if_nobody_else_changed() -> None:
    result = judge_memory_back(readings((0.1, 0.2, 4 * GIB), (60.0, 60.1, 4 * GIB)))

    assert [each.finding.rule for each in result.problems] == ["doctor/gpu-memory-kept"]
    assert result.status is CheckStatus.ERROR


@pytest.mark.parametrize(
    "holders",
    [
        pytest.param((NOBODY, OURS, SERVER), id="a-server-started-meanwhile"),
        pytest.param((None, None, None), id="nothing-is-listed"),
        pytest.param((NOBODY, NOBODY, NOBODY), id="a-container-sees-nobody"),
    ],
)
def test_memory_that_may_be_of_others_is_unknown(
    holders: tuple[Holders | None, Holders | None, Holders | None],
) -> None:
    result = judge_memory_back(readings((60.0, 60.1, 4 * GIB), holders=holders))

    assert result.status is CheckStatus.UNKNOWN
    assert result.problems == ()


def test_a_neighbour_that_frees_memory_does_not_prove_that_ours_is_back() -> None:
    result = judge_memory_back(
        readings((0.1, 0.2, 8 * GIB), used_before=60 * GIB, holders=(SERVER, OURS, NOBODY))
    )

    assert result.status is CheckStatus.UNKNOWN


def test_a_neighbour_that_stays_the_same_proves_it() -> None:
    result = judge_memory_back(
        readings((0.1, 0.2, 60 * GIB), used_before=60 * GIB, holders=(SERVER, OURS, SERVER))
    )

    assert result.status is CheckStatus.OK


def test_a_neighbour_with_less_than_was_tested_cannot_hide_it() -> None:
    result = judge_memory_back(readings((0.1, 0.2, 0), used_before=GIB, holders=(None, None, None)))

    assert result.status is CheckStatus.OK


def test_too_little_memory_for_the_proof_is_unknown() -> None:
    assert judge_memory_back(readings((0.1, 0.2, 0), held=2**20)).status is CheckStatus.UNKNOWN


def test_no_answer_after_the_end_is_unknown() -> None:
    assert judge_memory_back(readings()).status is CheckStatus.UNKNOWN


def test_holders_of_other_gpus_do_not_count() -> None:
    rows: list[dict[str, str | None]] = [
        {"gpu_uuid": "GPU-a", "pid": "1", "used_memory": "500"},
        {"gpu_uuid": "GPU-b", "pid": "2", "used_memory": None},
    ]

    assert holders_of(rows, "GPU-a") == {"1 500"}
