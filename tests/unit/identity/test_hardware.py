# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.identity.hardware import hardware
from ci_doctor.machine.gpus import GpuView
from ci_doctor.machine.nvidia_smi import Gpu

INFORMATION = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t GPU-{0}-d72c\nDevice Minor: \t {0}\n"
VERSIONS = {
    "550.54.15": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12\n",
    "570.86.10": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (root@x)  2025\n",
}


def driver(root: Path, gpus: int = 2, version: str = VERSIONS["550.54.15"]) -> Path:
    for number in range(gpus):
        folder = root / "driver/nvidia/gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(INFORMATION.format(number))
    (root / "driver/nvidia").mkdir(parents=True, exist_ok=True)
    (root / "driver/nvidia/version").write_text(version)
    (root / "cpuinfo").write_text(
        "processor: 0\nmodel name: Xeon\nflags: sse avx2 avx512f\n\nprocessor: 1\nmodel name: other\n"
    )
    return root


def test_this_machine_is_told() -> None:
    found = hardware({})

    assert found.facts["cpu.architecture"] == os.uname().machine
    assert found.facts["cpu.cores"] == str(len(os.sched_getaffinity(0)))
    assert {"kernel", "libc"} <= set(found.noted)
    assert "kernel" not in found.facts


@pytest.mark.parametrize("version", VERSIONS)
def test_the_drivers_files_tell_what_they_can_and_the_rest_is_unknown(
    tmp_path: Path, version: str
) -> None:
    found = hardware({}, driver(tmp_path, version=VERSIONS[version]))

    assert found.facts["driver"] == version
    assert found.facts["gpu1.name"] == "NVIDIA H100 80GB HBM3"
    assert found.facts["gpu1.uuid"] == "GPU-1-d72c"
    unknown = {f"gpu{n}.{key}" for n in (0, 1) for key in ("capability", "cores", "mig")}
    assert set(found.unknown) == unknown
    assert found.facts["cpu.flags"] == "avx2 avx512f"


def test_a_version_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert "driver" in hardware({}, driver(tmp_path, version="?")).unknown


@pytest.mark.parametrize(
    ("chosen", "uuids"),
    [
        ("1", ["GPU-1-d72c"]),
        ("1,0", ["GPU-1-d72c", "GPU-0-d72c"]),
        ("GPU-1", ["GPU-1-d72c"]),
        ("0,-1,1", ["GPU-0-d72c"]),
        ("0,7,1", ["GPU-0-d72c"]),
        ("1x,0", ["GPU-1-d72c", "GPU-0-d72c"]),
        ("0,0", []),
        ("9" * 5000, []),
        ("", []),
        ("MIG-GPU-0/1/0", ["MIG-GPU-0/1/0"]),
    ],
)
def test_only_the_gpus_that_a_process_sees_count(
    tmp_path: Path, chosen: str, uuids: list[str]
) -> None:
    found = hardware({"CUDA_VISIBLE_DEVICES": chosen}, driver(tmp_path))

    assert [found.facts[name] for name in sorted(found.facts) if name.endswith(".uuid")] == uuids
    assert (found.facts.get("gpu") == "none visible") == (not uuids)
    assert ("gpu0.name" in found.unknown) == chosen.startswith("MIG")


def test_a_slice_is_identified_as_that_slice_and_not_as_its_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu(index=0, bus_id="", name="NVIDIA H200", uuid="GPU-0", mig="Enabled", cores=16896)
    parts = tuple(
        replace(
            gpu,
            name=f"NVIDIA H200 MIG {profile}",
            uuid=uuid,
            cores=None,
            mig=None,
            former_uuid=uuid,
        )
        for uuid, profile in (("MIG-a", "1g.18gb"), ("MIG-b", "3g.71gb"))
    )

    def view(environ: dict[str, str], proc: Path) -> GpuView:
        chosen = environ.get("CUDA_VISIBLE_DEVICES")
        return GpuView(gpus=(gpu,), chosen=chosen, parts=parts, driver="580.1")

    monkeypatch.setattr("ci_doctor.identity.hardware.gpu_view", view)
    small, large, whole = (
        hardware({"CUDA_VISIBLE_DEVICES": chosen}, tmp_path) for chosen in ("MIG-a", "MIG-b", "0")
    )

    assert small.facts["gpu0.name"] == "NVIDIA H200 MIG 1g.18gb"
    assert (small.facts["gpu0.uuid"], small.facts["gpu0.mig"]) == ("MIG-a", "slice")
    assert whole.facts["gpu0.mig"] == "on"
    assert len({each.digest() for each in (small, large, whole)}) == 3


def test_a_machine_without_gpus_has_none(tmp_path: Path) -> None:
    found = hardware({}, tmp_path)

    assert found.facts["gpu"] == "none"
    assert {"cpu.model", "cpu.flags"} <= set(found.unknown)
