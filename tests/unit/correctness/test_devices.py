# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.devices import (
    at_once,
    placed,
    placeholders,
    variables,
    without_gpu_memory,
)
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import UsageError
from ci_doctor.machine.gpus import GpuView
from ci_doctor.machine.nvidia_smi import Gpu
from tests.unit.correctness.plans import BOTH, ENVIRONMENT, planned

UUIDS = ("GPU-5c89852c-d268", "GPU-6a1b852c-d268")
PARTS = ("MIG-7b8e6d1c-0b4a", "MIG-7b8e6d1c-0b4b")
VLLM = BOTH.replace('"sleep {port}"\nenv', '"sleep infinity vllm serve m -tp 2 --port {port}"\nenv')
FIXED = BOTH.replace('"sleep {port}"\nenv', '"sleep 8000"\nready = "http://127.0.0.1:8000/"\nenv')


def seen(directory: Path, visible: str | None) -> dict[str, str]:
    """The environment of a job that may see these devices; None: nothing names them."""
    own = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return {"PATH": f"{directory}:{ENVIRONMENT['PATH']}", **own}


def places(
    directory: Path, devices: str, visible: str | None = None, text: str = BOTH
) -> tuple[str, ...]:
    return planned(directory, text, environment=seen(directory, visible), devices=devices).places


def gpu(uuid: str, name: str = "A100", mig: str = "Disabled") -> Gpu:
    return Gpu(index=0, bus_id="", name=name, uuid=uuid, mig=mig)


@pytest.mark.parametrize(
    ("devices", "visible", "expected"),
    [
        ("0,1", None, ("0", "1")),
        ("0+1,2+3", None, ("0,1", "2,3")),
        ("5,4", "4,5,6", ("5", "4")),
        ("auto", "4,5", ("4", "5")),
        ("auto", "GPU-5c89852c, MIG-7b8e6d1c-0b", ("GPU-5c89852c", "MIG-7b8e6d1c-0b")),
        # CUDA stops at the first entry that names nothing.
        ("auto", "4,-1,5", ("4",)),
        ("3", None, ("3",)),
    ],
)
def test_a_place_is_a_part_of_what_the_job_may_see(
    tmp_path: Path, devices: str, visible: str | None, expected: tuple[str, ...]
) -> None:
    assert places(tmp_path, devices, visible) == expected
    assert at_once(expected) == min(2, len(expected))


@pytest.mark.parametrize(
    ("fan_out", "named", "visible", "expected"),
    [
        ("local:2", None, "4,5,6", ("4", "5", "6")),
        ("local:2", "5,6", "4,5,6", ("5", "6")),
        ("local:2", None, None, ("cores:2,3", "cores:6,7")),
        ("local:4", None, None, ("cores:2", "cores:3", "cores:6", "cores:7")),
        ("local:2", None, "", ("cores:2,3", "cores:6,7")),
    ],
)
def test_starts_fan_out_over_devices_and_over_sets_of_cores(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fan_out: str,
    named: str | None,
    visible: str | None,
    expected: tuple[str, ...],
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 3, 6, 7})
    environment = seen(tmp_path, visible)
    plan = planned(tmp_path, environment=environment, fan_out=fan_out, devices=named)
    assert plan.places == expected
    assert plan.at_once == int(fan_out[-1])
    assert placed(plan.arms[Arm.BASELINE].specs, "4") == plan.arms[Arm.BASELINE].specs
    if expected[0].startswith("cores"):
        assert placeholders(expected[0]) == variables(expected[0]) == {}
        spec = placed(plan.arms[Arm.BASELINE].specs, expected[0])["vllm"]
        front = ["taskset", "--cpu-list", expected[0].removeprefix("cores:")]
        assert spec.words() == [*front, "sleep", "{port}"]


@pytest.mark.parametrize(
    ("fan_out", "visible", "said"),
    [
        ("local:0", None, "`local:0` is no place of starts"),
        ("remote", None, "`remote` is no place of starts"),
        ("local:3", "4,5", "3 starts at once take 3 devices, and 2 are there"),
        ("local:999", None, "999 starts at once, and"),
    ],
)
def test_more_starts_at_once_than_there_are_places_are_refused(
    tmp_path: Path, fan_out: str, visible: str | None, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        planned(tmp_path, environment=seen(tmp_path, visible), fan_out=fan_out)
    assert said in caught.value.message


def test_without_devices_the_starts_stay_one_after_the_other(tmp_path: Path) -> None:
    assert planned(tmp_path).places == ()
    assert at_once(()) == 1


def test_an_index_beyond_the_gpus_of_the_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = GpuView(gpus=(gpu(UUIDS[0]), gpu(UUIDS[1])), chosen=None)
    monkeypatch.setattr("ci_doctor.correctness.devices.gpu_view", lambda _: view)
    assert places(tmp_path, "0,1") == ("0", "1")
    with pytest.raises(UsageError, match="there is no device 9: NVIDIA's driver names 2 GPUs"):
        places(tmp_path, "0,9")


def test_a_divided_gpu_gives_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = GpuView(gpus=tuple(map(gpu, UUIDS)), chosen=None)
    monkeypatch.setattr("ci_doctor.correctness.devices.gpu_view", lambda _: view)
    assert places(tmp_path, "auto") == UUIDS
    parts = tuple(gpu(uuid, "A100 MIG 3g.20gb") for uuid in PARTS)
    divided = (gpu(UUIDS[0], mig="Enabled"),)
    view = GpuView(gpus=divided, chosen=None, parts=parts)
    assert places(tmp_path, "auto") == PARTS
    view = GpuView(gpus=(*divided, gpu(UUIDS[1])), chosen=None, parts=parts)
    with pytest.raises(UsageError, match="of different kinds: A100, A100 MIG"):
        places(tmp_path, "auto")


def test_a_service_that_is_spread_gets_as_many_devices_as_its_command_says(tmp_path: Path) -> None:
    assert places(tmp_path, "auto", "4,5,6,7,8", VLLM) == ("4,5", "6,7")
    assert places(tmp_path, "0+1,2+3", text=VLLM) == ("0,1", "2,3")
    with pytest.raises(UsageError, match="a start takes 2 devices, and gets 1"):
        places(tmp_path, "0,1", text=VLLM)
    with pytest.raises(UsageError, match="takes 2 of the 1 devices"):
        places(tmp_path, "auto", "4", VLLM)


@pytest.mark.parametrize(
    ("devices", "visible", "text", "said"),
    [
        ("0,1", "4,5", BOTH, "0 is none of the job's own: CUDA_VISIBLE_DEVICES=4,5"),
        ("auto", "", BOTH, "takes 1 of the 0 devices"),
        ("0,0", None, BOTH, "0 is named twice"),
        ("0+1,2", None, BOTH, "as many devices as any other"),
        ("cuda:0", None, BOTH, "`cuda:0` is no device"),
        ("auto", None, BOTH, "NVIDIA's driver names no GPU here"),
        ("0,1", None, BOTH.replace('MODE = "shared"', 'CUDA_VISIBLE_DEVICES = "0"'), "sets CUDA_VISIBLE_DEVICES itself"),
        ("0,1", None, BOTH.replace('"sleep {port}"\nenv', '"env CUDA_VISIBLE_DEVICES=0 sleep {port}"\nenv'), "sets CUDA_VISIBLE_DEVICES itself"),
        ("0,1", None, FIXED, "has a fixed port"),
        ("0,1", None, BOTH.replace('"sleep {port}"\nenv', '"sleep {port}"\npidfile = "x.pid"\nenv'), "would share its pidfile"),
    ],
)  # fmt: skip
def test_what_cannot_run_side_by_side_is_refused(
    tmp_path: Path, devices: str, visible: str | None, text: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        places(tmp_path, devices, visible, text)
    assert said in caught.value.message


def test_a_service_may_place_itself_among_the_devices_of_its_start(tmp_path: Path) -> None:
    text = BOTH.replace('MODE = "shared"', 'CUDA_VISIBLE_DEVICES = "{device.1}"')
    assert places(tmp_path, "0+1,2+3", text=text) == ("0,1", "2,3")
    assert placeholders("2,3") == {"devices": "2,3", "device.0": "2", "device.1": "3"}


def test_one_device_leaves_a_fixed_port_and_the_starts_one_after_the_other(tmp_path: Path) -> None:
    assert places(tmp_path, "1", text=FIXED) == ("1",)


def test_starts_at_once_await_the_memory_of_the_gpus_when_all_have_ended(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert without_gpu_memory(plan) == (plan, None)
    arm = plan.arms[Arm.CANDIDATE]
    vllm = replace(arm.specs["vllm"], released=["port", "gpu-memory"], release_timeout="7s")
    arms = {**plan.arms, Arm.CANDIDATE: replace(arm, specs={**arm.specs, "vllm": vllm})}
    changed, limit_s = without_gpu_memory(replace(plan, arms=arms))
    assert changed.arms[Arm.CANDIDATE].specs["vllm"].released == ["port"]
    assert limit_s == 7
