# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.checks.gpu.mig_devices import gpu_view

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.gpu import free_memory
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context
from tests.support.gpus import divided_machine


def test_a_part_is_a_device_with_its_own_name_and_memory(tmp_path: Path) -> None:
    environ = divided_machine(tmp_path)
    context = check_context(tmp_path, environ={**environ, "CUDA_VISIBLE_DEVICES": "MIG-bbbb"})

    (device,) = gpu_view(context).visible().usable

    assert device.label == "GPU 0 (NVIDIA H100 80GB HBM3, MIG 2g.20gb)"
    assert device.memory.total == 20096 * 2**20


def test_a_service_must_fit_into_its_part_and_not_into_the_gpu(tmp_path: Path) -> None:
    environ = divided_machine(tmp_path)
    services = {
        "model": ServiceSpec(
            command="vllm serve m --gpu-memory-utilization 1.0",
            env={"CUDA_VISIBLE_DEVICES": "MIG-aaaa1111"},
        )
    }

    result = free_memory.CHECK.run(check_context(tmp_path, environ=environ, services=services))

    (problem,) = result.problems
    assert problem.finding.summary == (
        "GPU 0 (NVIDIA H100 80GB HBM3, MIG 1g.10gb) has 10.3 GB free, and `model` takes 10.3 GB"
    )


def test_a_program_that_names_no_part_has_no_memory_of_a_divided_gpu(tmp_path: Path) -> None:
    result = free_memory.CHECK.run(check_context(tmp_path, environ=divided_machine(tmp_path)))

    assert result.status is CheckStatus.OK
    assert result.summary == "a program sees no GPU, and no part that is named"
