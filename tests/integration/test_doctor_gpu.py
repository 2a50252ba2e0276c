# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor doctor gpu` beside stand-ins of NVIDIA's tools: no machine of ours has a GPU."""

import json
import os
from pathlib import Path

import pytest

from tests.support.cli import Ran, doctor
from tests.support.gpus import program, smi_gpu, smi_log
from tests.support.other_user import as_nobody, open_folder

pytestmark = pytest.mark.integration

# The kernel's log and /proc are the real ones, and differ with the machine and the user.
CHECKS = ("gpu", "--skip", "gpu/xids")


def run(tmp_path: Path, text: str, *args: str, code: int = 0, **env: str) -> Ran:
    path = program(tmp_path / "bin", "nvidia-smi", text, code=code)
    changes = {"PATH": f"{path}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": None, **env}
    return doctor("doctor", *CHECKS, *args, cwd=tmp_path, env=changes)


def statuses(ran: Ran) -> dict[str, str]:
    facts = json.loads(ran.out)["facts"]
    return {check["id"]: check["status"] for check in facts["checks"]}


def test_a_healthy_machine_with_eight_gpus_is_fit_without_a_word(tmp_path: Path) -> None:
    config = '[services.model]\ncommand = "vllm serve m -tp 8 --gpu-memory-utilization 0.9"\n'
    (tmp_path / "ci-doctor.toml").write_text(config)

    ran = run(tmp_path, smi_log(*map(smi_gpu, range(8))), "--for", "vllm", "--strict", "--json")

    assert ran.code == 0, ran
    assert set(statuses(ran).values()) == {"ok"}
    assert len(statuses(ran)) == 9


def test_a_busy_gpu_names_service_and_memory_and_ends_with_75(tmp_path: Path) -> None:
    (tmp_path / "ci-doctor.toml").write_text('[services.model]\ncommand = "vllm serve m"\n')
    text = smi_log(smi_gpu(free=30000, processes=[(999_999_999, "VLLM::EngineCore", 50000)]))

    ran = run(tmp_path, text)

    assert ran.code == 75, ran
    assert "has 31.5 GB free, and `model` takes 76.4 GB" in ran.out.replace("\n  ", " ")
    assert "pid 999999999 VLLM::EngineCore: 52.4 GB" in ran.out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_than_root_gets_answers_too() -> None:
    before = as_nobody()
    with open_folder() as folder:
        path = program(folder / "bin", "nvidia-smi", smi_log(smi_gpu()))
        env = {"PATH": f"{path}:{os.environ['PATH']}", "HOME": "/nonexistent"}
        ran = doctor("doctor", "gpu", "--json", cwd=folder, env=env, before=before)

    by_id = statuses(ran)
    assert by_id["gpu/driver"] == "ok", ran
    assert by_id["gpu/holders"] == "ok", ran
    # Whether others than root may read the kernel's log is the machine's setting.
    assert by_id["gpu/xids"] in {"ok", "unknown"}, ran
