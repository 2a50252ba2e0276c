# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.unit.scaffold.reading.test_find_commands import found

RUN = """\
MODEL=${1:-"acme/a"}
LENGTH=${2:-6000}
OFF=${3:-0}
ID=$(sudo docker run -d --gpus all \\
    --env "HF_TOKEN=$HF_TOKEN" -e "OFF=$OFF" --env=A=b -p 8000:8000 --name x \\
    acme/vllm-openai:latest \\
    $MODEL --max-model-len $LENGTH --port 8000)
"""


def test_the_words_behind_an_image_are_arguments_of_the_server_that_it_starts() -> None:
    (command,) = found(RUN)
    assert command.kind == "vllm"
    assert command.words == (
        "vllm", "serve", "acme/a", "--max-model-len", "6000", "--port", "8000"
    )  # fmt: skip
    assert command.in_container
    assert command.env == {"OFF": "0", "A": "b"}


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("vllm/vllm-openai:v0.9", "vllm"),
        ("ghcr.io/huggingface/text-generation-inference:3", "text-generation-launcher"),
        ("ghcr.io/huggingface/text-embeddings-inference:cpu-1", "text-embeddings-router"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "llama-server"),
        ("registry.example:5000/team/vllm-openai@sha256:abc", "vllm"),
    ],
)
def test_images_are_known_by_their_names(image: str, program: str) -> None:
    (command,) = found(f"docker run --rm {image} --model-id m")
    assert command.words[0] == program


@pytest.mark.parametrize(
    "text",
    [
        "docker run python:3.12 --model m",
        "docker build vllm/vllm-openai",
        "docker run -v vllm/vllm-openai:/x busybox",
        "docker run --entrypoint bash vllm/vllm-openai -x",
        "docker pull vllm/vllm-openai:latest",
    ],
)
def test_what_starts_another_program_is_none(text: str) -> None:
    assert found(text) == []


def test_a_program_in_a_variable_is_the_program() -> None:
    text = (
        'VENV="${VENV:-/opt/venv/}"\nVENV="${VENV%/}"\nBIN="${VENV}/bin"\n'
        'VLLM_BIN="${VLLM_BIN:-${BIN}/vllm}"\nPY=$BIN/python\n'
        '"${VLLM_BIN}" serve --model m --port 1\n"$PY" -m sglang.launch_server --model-path m\n'
    )
    first, second = found(text)
    assert first.words[:4] == ("/opt/venv/bin/vllm", "serve", "--model", "m")
    assert second.words[0] == "/opt/venv/bin/python"
    assert (first.arguments, second.arguments) == (2, 3)
