# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.machine.gpus import visible_gpus
from ci_doctor.machine.nvidia_smi import DriverReport, Gpu, GpuProcess, lines_beside, parse_smi_xml
from tests.support.gpus import smi_gpu, smi_log, volta

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


def test_parts_are_counted_and_not_looked_up() -> None:
    visible = visible_gpus(GPUS, "MIG-aaaa,MIG-bbbb")

    assert visible.parts == ("MIG-aaaa", "MIG-bbbb")
    assert visible.count == 2


@pytest.mark.parametrize("value", ["0,0", "1,0,1", "GPU-1,1"])
def test_an_entry_that_comes_twice_leaves_no_gpu(value: str) -> None:
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
    assert (gpu.bus_id, gpu.name, gpu.persistence) == (
        "00000000:3C:00.0",
        "NVIDIA H100 80GB HBM3",
        "Enabled",
    )
    assert gpu.memory.free == 80994 * MIB
    assert gpu.memory.usable == (81559 - 560) * MIB
    assert gpu.processes == (
        GpuProcess(pid=4242, kind="C", name="VLLM::EngineCore", used=70000 * MIB),
    )
    assert (gpu.recovery, gpu.lost, gpu.slowdowns) == ("None", None, ("gpu_idle",))


def test_gpus_have_the_numbers_of_their_order() -> None:
    log = parsed(smi_log(*map(smi_gpu, range(8))))

    assert [gpu.index for gpu in log.gpus] == list(range(8))


def test_uncorrected_errors_are_summed_since_the_driver_was_loaded() -> None:
    """Corrected errors, and those of the GPU's whole life, are others."""
    (gpu,) = parsed(smi_log(smi_gpu(uncorrected=3, sram_uncorrectable_parity="1"))).gpus

    assert gpu.errors.uncorrected == 4


def test_a_volta_under_driver_470_tells_the_same_by_other_names() -> None:
    (gpu,) = parsed(
        smi_log(volta(double_bit=2, pending="Yes", hot="Active"), driver="470.82.01")
    ).gpus

    assert (gpu.errors.uncorrected, gpu.errors.pending) == (2, True)
    assert gpu.slowdowns == ("gpu_idle", "hw_slowdown", "hw_thermal_slowdown")
    assert (gpu.mig, gpu.recovery) == (None, None)


def test_a_driver_of_the_future_names_its_version_otherwise() -> None:
    text = smi_log(smi_gpu()).replace("driver_version", "kmd_version")

    assert parsed(text.replace("cuda_version", "cuda_umd_version")).driver == "580.65.06"


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
    assert gpu.persistence is None


def test_a_gpu_that_a_driver_from_before_565_wants_reset_needs_a_reset() -> None:
    (gpu,) = parsed(smi_log(smi_gpu(gpu_recovery_action="N/A", reset_required="Yes"))).gpus

    assert gpu.recovery == "Reset"


def test_a_lost_gpu_is_told_by_the_words_in_its_elements() -> None:
    (gpu,) = parsed(smi_log(smi_gpu(compute_mode="GPU is lost"))).gpus

    assert gpu.lost == "GPU is lost"
    assert gpu.compute_mode is None


def test_mig_devices_have_memory_of_their_own() -> None:
    (gpu,) = parsed(smi_log(smi_gpu(current_mig="Enabled", parts=(9856, 20096)))).gpus

    assert gpu.is_partitioned
    assert [(part.index, part.gpu_instance) for part in gpu.parts] == [(0, 7), (1, 8)]
    assert [part.memory.free for part in gpu.parts] == [9844 * MIB, 20084 * MIB]


def test_warnings_around_the_document_are_told_apart() -> None:
    text = smi_log(smi_gpu()) + "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n"

    assert parse_smi_xml(text) is not None
    assert lines_beside(text) == ["WARNING: infoROM is corrupted at gpu 0000:3B:00.0"]


def test_an_error_and_a_torn_document_are_no_log() -> None:
    assert parse_smi_xml("No devices were found\n") is None
    assert parse_smi_xml(smi_log(smi_gpu())[:400]) is None
    assert parse_smi_xml("<nvidia_smi_log><gpu></nvidia_smi_log>") is None


def test_a_document_that_declares_entities_is_none() -> None:
    """The DOCTYPE is left out, so an entity that grows a million times is not known."""
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]>'

    assert parse_smi_xml(f"{bomb}<nvidia_smi_log><gpu>&b;</gpu></nvidia_smi_log>") is None


def test_megabytes_of_openings_take_no_time_that_grows_with_their_square() -> None:
    """With a pattern this took minutes, in which no other thread ran."""
    text = "<nvidia_smi_log " * 100_000

    assert parse_smi_xml(text) is None
    assert len("".join(lines_beside(text))) < 100_000


def test_a_document_that_no_driver_writes_is_none() -> None:
    assert parse_smi_xml(f"<nvidia_smi_log>{'<gpu/>' * 1_000_000}</nvidia_smi_log>") is None


def test_a_size_of_more_digits_than_a_number_may_have_is_unknown() -> None:
    (gpu,) = parsed(smi_log(smi_gpu(uncorrected="9" * 5000, free=f"{'9' * 5000} MiB"))).gpus

    assert gpu.memory.free is None
    assert gpu.errors.uncorrected == 0
