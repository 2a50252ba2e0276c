# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.services.gpu_demand import GpuEngine, demands_of
from ci_doctor.services.spec import ServiceSpec


@pytest.mark.parametrize(
    ("command", "engine", "share", "gpus"),
    [
        pytest.param("vllm serve m --port {port}", GpuEngine.VLLM, 0.9, 1, id="vllm-default"),
        pytest.param(
            "vllm serve m --gpu-memory-utilization 0.8 -tp 2",
            GpuEngine.VLLM,
            0.8,
            2,
            id="two-words",
        ),
        pytest.param(
            "vllm serve m --gpu_memory_utilization=0.5 --tensor_parallel_size=2 -pp=2 -dp 2",
            GpuEngine.VLLM,
            0.5,
            8,
            id="one-word-with-underscores",
        ),
        pytest.param(
            "/opt/venv/bin/python3 -m vllm.entrypoints.openai.api_server --model m",
            GpuEngine.VLLM,
            0.9,
            1,
            id="module",
        ),
        pytest.param(
            "bash -c 'exec vllm serve m --gpu-memory-utilization 0.4'",
            GpuEngine.VLLM,
            0.4,
            1,
            id="in-a-shell",
        ),
        pytest.param(
            "python -m sglang.launch_server --mem-fraction-static 0.7 --tp-size 4 --dp-size 2",
            GpuEngine.SGLANG,
            0.7,
            4,
            id="sglang",
        ),
        pytest.param(
            "python -m sglang.launch_server --tp 2", GpuEngine.SGLANG, None, 2, id="sglang-default"
        ),
        pytest.param(
            "bash -euo pipefail -lc 'exec vllm serve m -tp 2'",
            GpuEngine.VLLM,
            0.9,
            2,
            id="in-a-shell-with-options",
        ),
        pytest.param("vllm serve m --config c.yaml", GpuEngine.VLLM, None, 1, id="file-of-options"),
        pytest.param(f"vllm serve m -tp {'9' * 5000}", GpuEngine.VLLM, 0.9, 1, id="huge"),
        pytest.param(
            "vllm serve m --gpu-memory-utilization much", GpuEngine.VLLM, 0.9, 1, id="no-number"
        ),
    ],
)
def test_a_service_asks_by_its_options(
    command: str, engine: GpuEngine, share: float | None, gpus: int
) -> None:
    (demand,) = demands_of({"model": ServiceSpec(command=command)})

    assert (demand.service, demand.engine, demand.share, demand.gpus) == (
        "model",
        engine,
        share,
        gpus,
    )


@pytest.mark.parametrize(
    "command",
    [
        "python -m http.server",
        "vllm bench serve-not",
        "vllm bench serve --model m",
        "python -m sglang.bench_serving",
        "vllm serve m --device cpu",
        "vllm 'serve",
    ],
)
def test_what_is_not_known_to_use_a_gpu_asks_for_nothing(command: str) -> None:
    assert demands_of({"other": ServiceSpec(command=command)}) == ()


def test_a_services_own_devices_count_unless_the_launch_fills_them_in() -> None:
    services = {
        "own": ServiceSpec(command="vllm serve m", env={"CUDA_VISIBLE_DEVICES": "1"}),
        "later": ServiceSpec(command="vllm serve m", env={"CUDA_VISIBLE_DEVICES": "{gpu}"}),
    }

    assert [demand.visible for demand in demands_of(services)] == ["1", None]


@pytest.mark.parametrize(
    "command",
    [
        "env CUDA_VISIBLE_DEVICES=1 vllm serve m",
        "bash -c 'CUDA_VISIBLE_DEVICES=1 exec vllm serve m'",
        "bash -c 'export CUDA_VISIBLE_DEVICES=1; exec vllm serve m'",
    ],
)
def test_devices_that_the_command_sets_are_the_services_own(command: str) -> None:
    services = {"model": ServiceSpec(command=command, env={"CUDA_VISIBLE_DEVICES": "0"})}

    assert [demand.visible for demand in demands_of(services)] == ["1"]


def test_sglang_may_begin_at_a_later_gpu() -> None:
    command = "python -m sglang.launch_server --base-gpu-id 4 --tp 2"

    (demand,) = demands_of({"model": ServiceSpec(command=command)})

    assert (demand.first, demand.gpus) == (4, 2)
