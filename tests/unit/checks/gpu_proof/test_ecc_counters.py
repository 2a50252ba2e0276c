# SPDX-License-Identifier: Apache-2.0
"""Counters of memory errors, before and after."""

from pathlib import Path

import pytest
from ci_doctor.checks.gpu_proof.ecc_counters import EccCounters, new_errors, read_counters

from ci_doctor.checks.check import UndeterminedError
from tests.support.gpu_proof import proof_context, write_nvidia_smi


def counters(corrected: int | None, uncorrected: int | None) -> dict[str, EccCounters]:
    one = EccCounters(index="0", mode="Enabled", corrected=corrected, uncorrected=uncorrected)
    return {"GPU-a": one}


def rules(before: dict[str, EccCounters], after: dict[str, EccCounters]) -> list[str]:
    return [each.finding.rule for each in new_errors(before, after, "during a proof")]


def test_old_errors_are_no_problem_of_this_run() -> None:
    assert rules(counters(7, 2), counters(7, 2)) == []


def test_new_uncorrected_errors_are_an_error_and_corrected_ones_a_warning() -> None:
    assert rules(counters(7, 2), counters(9, 3)) == [
        "doctor/ecc-errors-under-load",
        "doctor/ecc-corrections-under-load",
    ]


@pytest.mark.parametrize("before", [counters(None, None), {}])
def test_absent_counters_say_nothing(before: dict[str, EccCounters]) -> None:
    assert rules(before, counters(3, 3)) == []


def test_a_card_without_ecc_has_no_counters(tmp_path: Path) -> None:
    answer = "GPU-a, 0, [N/A], [N/A], [N/A]"
    write_nvidia_smi(tmp_path / "bin", {"ecc.mode": answer})

    one = read_counters(proof_context(tmp_path / "bin"))["GPU-a"]

    assert (one.mode, one.corrected, one.uncorrected) == (None, None, None)


def test_a_driver_that_does_not_answer_is_undetermined(tmp_path: Path) -> None:
    program = write_nvidia_smi(tmp_path / "bin") / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")

    with pytest.raises(UndeterminedError, match="NVIDIA-SMI has failed"):
        read_counters(proof_context(tmp_path / "bin"))
