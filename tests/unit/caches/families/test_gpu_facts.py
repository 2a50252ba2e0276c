# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.caches.families.gpu_facts import GpuFacts
from ci_doctor.caches.families.unknown_fact import UnknownFactError
from ci_doctor.identity.identity import Identity

TWO = {"gpu0.name": "NVIDIA H100 PCIe", "gpu1.name": "NVIDIA A100", "driver": "580.65.06"}


def test_no_gpu_is_a_fact() -> None:
    gpus = GpuFacts(Identity.of({"gpu": "none"}), {})

    assert (gpus.names(), gpus.capability(), gpus.driver()) == ("none", "none", "none")


def test_different_models_are_all_named() -> None:
    assert GpuFacts(Identity.of(TWO), {}).names() == "NVIDIA A100, NVIDIA H100 PCIe"
    assert GpuFacts(Identity.of(TWO), {}).driver() == "580.65.06"


def test_what_the_driver_does_not_report_is_asked_of_nvidia_smi_or_unknown(tmp_path: Path) -> None:
    facts = Identity.of(TWO, {"gpu0.capability": "the driver does not report it"})
    with pytest.raises(UnknownFactError, match="nvidia-smi"):
        GpuFacts(facts, {"PATH": ""}).capability()

    smi = tmp_path / "nvidia-smi"
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    smi.write_text("#!/bin/sh\necho 9.0\necho 9.0\n")
    smi.chmod(0o755)
    assert GpuFacts(facts, environ).capability() == "9.0"

    smi.write_text("#!/bin/sh\necho 9.0\necho 8.0\n")
    with pytest.raises(UnknownFactError, match="one compute_cap"):
        GpuFacts(facts, environ).capability()
