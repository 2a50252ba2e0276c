# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor doctor --gpu`, from the command line to the report, with torch's stand-in and an nvidia-smi."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import ROOT, inside
from tests.support.gpu_proof import proof_environ, write_nvidia_smi

pytestmark = pytest.mark.integration


def _report(tmp_path: Path, *words: str, code: int, **behaviour: Any) -> dict[str, Any]:
    write_nvidia_smi(tmp_path / "bin")
    environ = proof_environ(tmp_path / "bin", **behaviour)
    environ["PYTHONPATH"] += f":{ROOT}"
    target = ("gpu_proof", "--gpu", "--python", sys.executable, "--report-dir", "report")
    ran = inside("doctor", *target, *words, cwd=tmp_path, env=environ)
    assert ran.code == code, ran
    report: dict[str, Any] = json.loads((tmp_path / "report" / "report.json").read_text())
    return report


def test_every_proof_is_made_and_has_its_figures(tmp_path: Path) -> None:
    report = _report(tmp_path, code=0, varying="always")

    checks = {check["id"]: check for check in report["facts"]["checks"]}
    assert {name: check["status"] for name, check in checks.items()} == {
        "gpu_proof/devices": "ok",
        "gpu_proof/workspace": "warning",
    }
    assert checks["gpu_proof/workspace"]["figures"]["results_without"] == 3


def test_a_driver_that_torch_cannot_use_is_the_environments_error(tmp_path: Path) -> None:
    report = _report(tmp_path, code=75, no_driver="The NVIDIA driver on your system is too old")

    assert report["verdict"] == "infra"
    assert [finding["rule"] for finding in report["findings"]] == ["doctor/gpu-unusable"]


def test_a_proof_that_was_asked_for_and_cannot_be_made_is_unknown(tmp_path: Path) -> None:
    ran = inside("doctor", "machine/memory", "gpu_proof/workspace", "--strict", cwd=tmp_path)

    assert ran.code == 86, ran
