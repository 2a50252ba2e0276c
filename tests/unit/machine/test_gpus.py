# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ci_doctor.machine.gpus import gpu_view, proc_gpus, shows_gpu, visible_gpus
from ci_doctor.machine.nvidia_smi import DriverReport, Gpu, GpuProcess, lines_beside, parse_smi_xml
from tests.support.gpus import PARTS, divided_machine, machine, smi_gpu, smi_log, volta

GPUS = [
    Gpu(index=index, bus_id=f"{index}", name="NVIDIA L4", uuid=f"GPU-{index}abc")
    for index in range(3)
]


@pytest.mark.parametrize(
    ("value", "indices", "missing"),
    [
        pytest.param(None, [0, 1, 2], None, id="unset"),
        pytest.param("", [], "", id="empty"),
        pytest.param("-1", [], "-1", id="minus-one"),
        pytest.param("2,0", [2, 0], None, id="order"),
        pytest.param("0,7,1", [0], "7", id="ends-at-the-first-that-is-missing"),
        pytest.param("GPU-1", [1], None, id="beginning-of-a-uuid"),
        pytest.param("GPU-", [], "GPU-", id="ambiguous-uuid"),
        pytest.param("1gpu2", [1], None, id="an-index-as-strtoul-reads-it"),
        pytest.param("NoDevFiles", [], "NoDevFiles", id="a-word"),
        pytest.param("9" * 5000, [], "9" * 5000, id="more-digits-than-a-number-has"),
    ],
)
def test_a_program_sees_what_cuda_says(
    value: str | None, indices: list[int], missing: str | None
) -> None:
    visible = visible_gpus(GPUS, value)

    assert [gpu.index for gpu in visible.gpus] == indices
    assert visible.missing == missing


# As `nvidia-smi -L` names the slices of an H200: each has a UUID of its own.
SLICES = [
    Gpu(
        index=0,
        bus_id="0",
        name=f"NVIDIA H200, MIG {profile}",
        uuid=f"MIG-{uuid}",
        former_uuid=f"MIG-GPU-0abc/{instance}/0",
    )
    for profile, uuid, instance in [
        ("1g.18gb", "c7384736-a75d-5afc-978f-d2f1294409fd", 13),
        ("3g.71gb", "a28ad590-3fda-56dd-84fc-0a0b96edc58d", 2),
    ]
]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        pytest.param("MIG-c7384736-a75d-5afc-978f-d2f1294409fd", ["1g.18gb"], id="uuid"),
        pytest.param("MIG-a28", ["3g.71gb"], id="beginning-of-a-uuid"),
        pytest.param("MIG-GPU-0abc/2/0", ["3g.71gb"], id="name-before-driver-470"),
        pytest.param("MIG-a28,MIG-c73", ["3g.71gb", "1g.18gb"], id="order"),
        pytest.param("MIG-", [], id="ambiguous"),
        pytest.param("MIG-c73,MIG-c73", [], id="twice"),
        pytest.param("MIG-GPU-9abc/2/0", [], id="of-another-gpu"),
    ],
)
def test_a_slice_is_the_slice_and_not_the_gpu_that_it_is_of(value: str, names: list[str]) -> None:
    visible = visible_gpus(GPUS, value, SLICES)

    assert [gpu.name.rpartition(" ")[2] for gpu in visible.gpus] == names
    assert not set(visible.gpus) & set(GPUS)


def test_parts_of_which_nothing_is_known_are_counted_and_a_repeated_entry_leaves_no_gpu() -> None:
    parts = visible_gpus(GPUS, "MIG-aaaa,MIG-bbbb")
    assert (parts.parts, parts.count) == (("MIG-aaaa", "MIG-bbbb"), 2)

    for value in ("0,0", "1,0,1", "GPU-1,1"):
        visible = visible_gpus(GPUS, value)
        assert (visible.count, visible.repeated) == (0, value.rpartition(",")[2])


MIB = 2**20


def parsed(text: str) -> DriverReport:
    log = parse_smi_xml(text)
    assert log is not None
    return log


def test_a_current_driver_tells_memory_modes_and_processes() -> None:
    log = parsed(smi_log(smi_gpu(1, processes=[(4242, "VLLM::EngineCore", 70000)])))

    (gpu,) = log.gpus
    assert (log.driver, log.cuda) == ("580.65.06", "13.0")
    assert (gpu.bus_id, gpu.name) == ("00000000:3C:00.0", "NVIDIA H100 80GB HBM3")
    assert gpu.memory.free == 80994 * MIB
    assert gpu.memory.usable == (81559 - 560) * MIB
    assert gpu.processes == (
        GpuProcess(pid=4242, kind="C", name="VLLM::EngineCore", used=70000 * MIB),
    )
    assert (gpu.recovery, gpu.lost) == ("None", None)


def test_gpus_have_the_numbers_of_their_order_and_a_future_driver_its_other_names() -> None:
    text = smi_log(*map(smi_gpu, range(8))).replace("driver_version", "kmd_version")

    log = parsed(text.replace("cuda_version", "cuda_umd_version"))

    assert [gpu.index for gpu in log.gpus] == list(range(8))
    assert (log.driver, log.cuda) == ("580.65.06", "13.0")


def test_a_gpu_tells_its_errors_its_loss_and_its_reset() -> None:
    errors, old, lost, huge = parsed(
        smi_log(
            # Corrected errors, and those of the GPU's whole life, are others.
            smi_gpu(uncorrected=3, sram_uncorrectable_parity="1"),
            # A driver from before 565.
            smi_gpu(gpu_recovery_action="N/A", reset_required="Yes"),
            smi_gpu(compute_mode="GPU is lost"),
            # More digits than a number may have are unknown.
            smi_gpu(uncorrected="9" * 5000, free=f"{'9' * 5000} MiB"),
        )
    ).gpus

    assert errors.errors.uncorrected == 4
    assert old.recovery == "Reset"
    assert (lost.lost, lost.compute_mode) == ("GPU is lost", None)
    assert (huge.memory.free, huge.errors.uncorrected) == (None, 0)


def test_a_volta_under_driver_470_tells_the_same_by_other_names() -> None:
    (gpu,) = parsed(
        smi_log(volta(double_bit=2, pending="Yes", hot="Active"), driver="470.82.01")
    ).gpus

    assert (gpu.errors.uncorrected, gpu.errors.pending) == (2, True)
    assert (gpu.mig, gpu.recovery) == (None, None)


def test_what_the_driver_does_not_report_is_unknown_and_not_zero() -> None:
    (gpu,) = parsed(
        smi_log(
            smi_gpu(
                total="N/A",
                free="[N/A]",
                uncorrected="N/A",
                sram_uncorrectable_parity="N/A",
                sram_uncorrectable_secded="[Insufficient Permissions]",
                processes="N/A",
                persistence_mode="Unknown Error",
            )
        )
    ).gpus

    assert gpu.memory.free is None
    assert gpu.memory.usable is None
    assert gpu.errors.uncorrected is None
    assert gpu.processes is None


def test_mig_devices_have_memory_of_their_own() -> None:
    (gpu,) = parsed(smi_log(smi_gpu(current_mig="Enabled", parts=(9856, 20096)))).gpus

    assert gpu.is_partitioned
    assert [(part.index, part.gpu_instance) for part in gpu.parts] == [(0, 7), (1, 8)]
    assert [part.memory.free for part in gpu.parts] == [9844 * MIB, 20084 * MIB]


BOMB = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    "text",
    [
        "No devices were found\n",
        smi_log(smi_gpu())[:400],
        "<nvidia_smi_log><gpu></nvidia_smi_log>",
        # The DOCTYPE is left out, so an entity that grows a million times is not known.
        f"{BOMB}<nvidia_smi_log><gpu>&b;</gpu></nvidia_smi_log>",
        f"<nvidia_smi_log>{'<gpu/>' * 1_000_000}</nvidia_smi_log>",
    ],
    ids=["an error", "torn", "unclosed", "entities", "larger than any driver writes"],
)
def test_what_is_no_document_of_a_driver_is_no_log(text: str) -> None:
    assert parse_smi_xml(text) is None


def test_warnings_around_the_document_are_told_apart() -> None:
    text = smi_log(smi_gpu()) + "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n"

    assert parse_smi_xml(text) is not None
    assert lines_beside(text) == ["WARNING: infoROM is corrupted at gpu 0000:3B:00.0"]


def test_megabytes_of_openings_take_no_time_that_grows_with_their_square() -> None:
    """With a pattern this took minutes, in which no other thread ran."""
    text = "<nvidia_smi_log " * 100_000

    assert parse_smi_xml(text) is None
    assert len("".join(lines_beside(text))) < 100_000


INFORMATION = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 18\nGPU UUID: \t {0}\nDevice Minor: \t 0\n"


def test_the_drivers_files_name_the_gpus_where_nothing_else_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    # A UUID is question marks for whoever may not wake the GPU.
    uuids = ("GPU-1-d72c", "GPU-????????-????-????-????-????????????")
    files = {
        f"proc/driver/nvidia/gpus/0000:0{number}:00.0/information": INFORMATION.format(uuid)
        for number, uuid in enumerate(uuids)
    }
    root = machine(tmp_path, files)

    view = gpu_view({"CUDA_VISIBLE_DEVICES": "GPU-1"}, root / "proc")

    assert view is not None
    assert (view.driver, [gpu.uuid for gpu in view.gpus]) == ("580.65.06", ["GPU-1-d72c", None])
    assert [gpu.name for gpu in view.visible().gpus] == ["NVIDIA H200"]
    assert len(proc_gpus(root / "proc")) == 2


def test_nvidia_smi_names_the_slices_without_nvidias_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    root = machine(tmp_path / "root")
    environ = divided_machine(tmp_path)

    view = gpu_view({**environ, "CUDA_VISIBLE_DEVICES": "MIG-bbbb2222"}, root / "proc")

    assert view is not None
    assert [gpu.name for gpu in view.visible().gpus] == ["NVIDIA H100 80GB HBM3, MIG 2g.20gb"]
    assert len(view.parts) == PARTS.count("MIG-")


def _library(**answers: Any) -> ModuleType:
    """NVIDIA's library with one H200 that is divided, as the NVML API reference has the calls."""
    library = ModuleType("pynvml")

    class NVMLError(Exception):
        pass

    def device(kind: str) -> Any:
        if kind == "none":
            raise NVMLError
        return SimpleNamespace(kind=kind)

    slices = ["slice", "none"]
    calls: dict[str, Any] = {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "570.86.10",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda _: device("whole"),
        "nvmlDeviceGetCudaComputeCapability": lambda _: (9, 0),
        "nvmlDeviceGetNumGpuCores": lambda _: 16896,
        "nvmlDeviceGetMigMode": lambda _: (1, 1),
        "nvmlDeviceGetName": lambda at: (
            "NVIDIA H200" if at.kind == "whole" else "NVIDIA H200 MIG 1g.18gb"
        ),
        "nvmlDeviceGetUUID": lambda at: "GPU-77" if at.kind == "whole" else "MIG-c738",
        "nvmlDeviceGetMaxMigDeviceCount": lambda _: len(slices),
        "nvmlDeviceGetMigDeviceHandleByIndex": lambda _, index: device(slices[index]),
        "nvmlDeviceGetGpuInstanceId": lambda _: 13,
        "nvmlDeviceGetComputeInstanceId": lambda _: 0,
    }
    for name, call in {**calls, **answers}.items():
        setattr(library, name, call)
    return library


@pytest.mark.parametrize("chosen", ["MIG-c738", "MIG-GPU-77/13/0"])
def test_nvidias_library_names_the_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _library())
    root = machine(tmp_path)

    view = gpu_view({"PATH": "", "CUDA_VISIBLE_DEVICES": chosen}, root / "proc")

    assert view is not None
    (seen,) = view.visible().gpus
    assert (seen.name, seen.uuid, seen.capability) == ("NVIDIA H200 MIG 1g.18gb", "MIG-c738", "9.0")
    assert seen.cores is None
    assert (view.gpus[0].cores, view.gpus[0].mig, view.driver) == (16896, "Enabled", "570.86.10")


def test_a_library_that_fails_leaves_it_to_the_drivers_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = _library()

    def fails() -> None:
        raise library.NVMLError

    monkeypatch.setattr(library, "nvmlInit", fails)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    root = machine(tmp_path)

    view = gpu_view({"PATH": ""}, root / "proc")

    assert view is not None
    assert (view.gpus, view.driver) == ((), "580.65.06")


@pytest.mark.parametrize("name", ["proc/driver/nvidia/version", "dev/nvidia0", "dev/nvidiactl"])
def test_any_trace_of_the_driver_shows_a_gpu(tmp_path: Path, name: str) -> None:
    assert not shows_gpu(machine(tmp_path / "none", loaded=None), {"PATH": ""})
    assert shows_gpu(machine(tmp_path / "some", {name: ""}, loaded=None), {"PATH": ""})
