# SPDX-License-Identifier: Apache-2.0
"""Proofs take turns, and ECC errors that appear meanwhile are theirs."""

import threading
from pathlib import Path

from ci_doctor.checks.gpu_proof.turn import proof

from ci_doctor.checks.check import CheckResult
from ci_doctor.checks.context import CheckContext
from tests.support.gpu_proof import proof_context, write_nvidia_smi


def test_no_two_proofs_run_at_once(tmp_path: Path) -> None:
    running: list[str] = []
    overlaps: list[list[str]] = []

    def measure(context: CheckContext) -> CheckResult:
        running.append("one")
        context.run(["true"])
        overlaps.append(list(running))
        running.remove("one")
        return CheckResult(summary="measured")

    context = proof_context(write_nvidia_smi(tmp_path / "bin"))
    checks = [proof(f"gpu_proof/{place}", "a test", measure) for place in range(4)]
    threads = [threading.Thread(target=check.run, args=(context,)) for check in checks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert overlaps == [["one"]] * 4


def test_ecc_errors_during_a_proof_are_problems_of_it(tmp_path: Path) -> None:
    folder = write_nvidia_smi(tmp_path / "bin")

    def measure(_context: CheckContext) -> CheckResult:
        answer = "GPU-00000000-0000-0000-0000-000000000000, 0, Enabled, 5, 1\n"
        (folder / "ecc.mode.txt").write_text(answer)
        return CheckResult(summary="measured")

    result = proof("gpu_proof/test", "a test", measure).run(proof_context(folder))

    assert [each.finding.rule for each in result.problems] == [
        "doctor/ecc-errors-under-load",
        "doctor/ecc-corrections-under-load",
    ]
    assert "during the proof of a test" in result.problems[0].finding.summary


def test_a_driver_without_counters_changes_nothing(tmp_path: Path) -> None:
    result = proof("gpu_proof/test", "a test", lambda _: CheckResult(summary="measured")).run(
        proof_context(tmp_path)
    )

    assert result == CheckResult(summary="measured")
