# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.drift.gpus import gpu_facts
from ci_doctor.identity.identity import Identity


def test_gpus_of_one_kind_are_one_fact(tmp_path: Path) -> None:
    facts = {
        "gpu0.name": "NVIDIA H200",
        "gpu1.name": "NVIDIA H200",
        "gpu0.uuid": "GPU-a",
        "gpu1.uuid": "GPU-b",
        "driver": "580.1",
    }
    unknown = {"gpu0.mig": "not reported", "gpu1.mig": "not reported"}

    machine = gpu_facts(Identity.of(facts, unknown), tmp_path)

    assert machine.facts == {
        "driver": "580.1",
        "gpu.name": "2 x NVIDIA H200",
        "gpu.uuid": "GPU-a, GPU-b",
    }
    assert machine.unknown == {"gpu.mig": "not reported"}


def test_firmware_is_read_from_the_drivers_files(tmp_path: Path) -> None:
    for number, version in enumerate(("96.00.A0", "96.00.A0", "??.??.??")):
        folder = tmp_path / f"driver/nvidia/gpus/0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t X\nVideo BIOS: \t {version}\n")

    assert gpu_facts(Identity(), tmp_path).facts == {"gpu.vbios": "2 x 96.00.A0"}


def test_a_machine_without_gpus_says_so(tmp_path: Path) -> None:
    assert gpu_facts(Identity.of({"gpu": "none"}), tmp_path).facts == {"gpu": "none"}
