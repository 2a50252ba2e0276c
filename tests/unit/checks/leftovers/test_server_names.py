"""Which command lines are servers."""

import pytest

from ci_doctor.checks.leftovers.server_names import is_server


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve Qwen/Qwen3-8B",
        "/opt/venv/bin/python3.12 /opt/venv/bin/vllm serve x",
        "python -m vllm.entrypoints.openai.api_server",
        "python -W ignore -X dev -u -m sglang.launch_server",
        "VLLM::EngineCore_DP0",
        "ray::IDLE",
        "/usr/lib/ray/raylet --port 1",
        "python3 -m torch.distributed.run train.py",
    ],
)
def test_servers_and_their_workers_are(line: str) -> None:
    assert is_server(line.split())


def test_a_guardian_of_ci_doctor_is() -> None:
    program = "import sys; from ci_doctor.system.guardian.main import main; main()"

    assert is_server(["python", "-I", "-S", "-c", program, "/x"])


@pytest.mark.parametrize(
    "line",
    [
        "grep -r vllm .",
        "python -m pip install vllm",
        "python tests/vllm.py",
        "vim vllm",
        "python",
        "python -c pass",
        "less /var/log/vllm/serve",
        "python -m vllms",
        "",
    ],
)
def test_what_only_names_them_is_not(line: str) -> None:
    assert not is_server(line.split())
