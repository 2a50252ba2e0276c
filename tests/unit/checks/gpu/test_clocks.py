# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from ci_doctor.checks.gpu.clocks import CHECK

from ci_doctor.checks.check import CheckResult, CheckStatus
from tests.support.checks import check_context
from tests.support.gpus import machine, program, smi_gpu, smi_log, volta


def checked(tmp_path: Path, *gpus: str) -> CheckResult:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(*gpus))
    root = machine(tmp_path / "root")
    return CHECK.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root))


def slowed(reason: str) -> str:
    element = f"clocks_event_reason_{reason}"
    return smi_gpu().replace(f"<{element}>Not Active<", f"<{element}>Active<")


@pytest.mark.parametrize("reason", ["gpu_idle", "sw_power_cap"])
def test_idle_clocks_and_a_power_cap_are_fine(tmp_path: Path, reason: str) -> None:
    gpu = slowed(reason)

    assert checked(tmp_path, gpu).status is CheckStatus.OK


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("hw_thermal_slowdown", "the hardware is too hot"),
        ("hw_power_brake_slowdown", "the power supply demands it"),
        ("sw_thermal_slowdown", "it is too hot, or its memory is"),
        ("hw_slowdown", "the hardware demands it"),
    ],
)
def test_heat_and_the_power_supply_are_a_warning(tmp_path: Path, reason: str, words: str) -> None:
    result = checked(tmp_path, slowed(reason))

    (problem,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert problem.finding.summary.endswith(f"is slowed down: {words}")


def test_an_old_drivers_reasons_are_read(tmp_path: Path) -> None:
    assert checked(tmp_path, volta(hot="Active")).status is CheckStatus.WARNING
    assert checked(tmp_path, volta()).status is CheckStatus.OK


def test_a_driver_that_gives_no_reasons_makes_it_unknown(tmp_path: Path) -> None:
    assert checked(tmp_path, smi_gpu(clocks_event_reasons="N/A")).status is CheckStatus.UNKNOWN
