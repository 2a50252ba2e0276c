# SPDX-License-Identifier: Apache-2.0
"""Small repositories in the shape of known ones, for `ci-doctor init`: where their servers' commands stand, and how."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """`files` by path; what is proposed for them."""

    files: Mapping[str, str]
    baseline: str | None
    candidate: str | None = None
    command: tuple[str, ...] = ()
    ready: str = "/health"
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    apis: tuple[str, ...] = ("completions", "chat")
    arms: str = "the same command"
    model: str | None = None


def build(directory: Path, layout: Layout) -> Path:
    """The files of a layout below `directory`, which is returned."""
    for name, text in layout.files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return directory


# An engine: its tests stand in shell scripts that Buildkite calls.
ENGINE = Layout(
    files={
        ".buildkite/pipeline.yaml": (
            'steps:\n  - label: "server"\n    agents:\n      queue: "gpu_1"\n    commands:\n'
            "      - bash .buildkite/scripts/serve.sh\n"
        ),
        ".buildkite/scripts/serve.sh": (
            '#!/bin/bash\nset -e\nMODEL="acme/Tiny-0.5B-Instruct"\nPORT=${PORT:-8000}\n'
            'CUDA_VISIBLE_DEVICES=0 vllm serve "$MODEL" \\\n  --port $PORT \\\n  --enforce-eager "$@" > server.log 2>&1 &\n'
            "sleep 60\ncurl localhost:$PORT/health\n"
        ),
        "benchmarks/serve.sh": "vllm serve acme/Other-70B --tensor-parallel-size 8\n",
        "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n',
        "tests/test_it.py": "def test(): pass\n",
    },
    baseline=".buildkite/scripts/serve.sh:5",
    command=("vllm", "serve", "acme/Tiny-0.5B-Instruct", "--port", "{port}", "--enforce-eager"),
    env={"CUDA_VISIBLE_DEVICES": "0"},
    model="acme/Tiny-0.5B-Instruct",
)
# A KV cache: a plain server, one with its connector, and its store, in one script.
KV_CACHE = Layout(
    files={
        ".buildkite/correctness.sh": (
            "lmcache_server localhost 65432 &\n"
            "vllm serve acme/Tiny-0.5B-Instruct --port 8000 &\n"
            "LMCACHE_REMOTE_URL=lm://localhost:65432 python -m vllm.entrypoints.openai.api_server \\\n"
            "  --model acme/Tiny-0.5B-Instruct --port 8001 \\\n"
            """  --kv-transfer-config '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}' &\n"""
        ),
    },
    baseline=".buildkite/correctness.sh:2",
    candidate=".buildkite/correctness.sh:3",
    command=("vllm", "serve", "acme/Tiny-0.5B-Instruct", "--port", "{port}"),
    arms="two commands",
    model="acme/Tiny-0.5B-Instruct",
)
# The same in containers: each server is the image's, and a script of its own starts it.
KV_CACHE_IMAGES = Layout(
    files={
        ".buildkite/plain.sh": (
            'MODEL=${1:-"acme/Chat-2B"}\nID=$(sudo docker run -d --gpus all --env "HF_TOKEN=$HF_TOKEN" \\\n'
            "  -p 8000:8000 acme/vllm-openai:latest $MODEL --port 8000)\nsleep 120\n"
        ),
        ".buildkite/cache.sh": (
            'MODEL=${1:-"acme/Chat-2B"}\nID=$(sudo docker run -d --env "LMCACHE_CHUNK_SIZE=256" \\\n'
            "  acme/vllm-openai:latest $MODEL --port 8000 \\\n"
            """  --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}')\n"""
        ),
    },
    baseline=".buildkite/plain.sh:2",
    candidate=".buildkite/cache.sh:2",
    command=("vllm", "serve", "acme/Chat-2B", "--port", "{port}"),
    arms="two commands",
    model="acme/Chat-2B",
)
# A connector of its own, and no plain server beside it.
CONNECTOR_ALONE = Layout(
    files={
        "ci/run.sh": (
            "python3 -m sglang.launch_server --model-path acme/Chat-7B-Instruct --host 0.0.0.0 \\\n"
            "  --port 30000 --enable-hierarchical-cache\n"
        ),
    },
    baseline="ci/run.sh:1",
    command=(
        *("python3", "-m", "sglang.launch_server", "--model-path", "acme/Chat-7B-Instruct"),
        *("--host", "0.0.0.0", "--port", "{port}"),
    ),
    apis=("completions", "chat", "sglang-generate"),
    arms="connector left out",
    model="acme/Chat-7B-Instruct",
)
# Prefill and decode apart: neither answers by itself, and a quick start stands beside them.
DISAGGREGATED = Layout(
    files={
        "tests/e2e/prefill.yaml": (
            "commands:\n  - |\n    vllm serve acme/Big-Chat --port 8100\n    --max-model-len 8192\n"
            """    --kv-transfer-config\n    '{"kv_connector": "P2P",\n    "kv_role": "kv_producer"}'\n"""
        ),
        "tests/e2e/quick.sh": "vllm serve acme/Big-Chat --max-model-len 4096 --seed 1 --dtype float32 &\n",
    },
    baseline="tests/e2e/quick.sh:1",
    command=(
        *("vllm", "serve", "acme/Big-Chat", "--max-model-len", "4096"),
        *("--seed", "1", "--dtype", "float32", "--port", "{port}"),
    ),
    model="acme/Big-Chat",
)
# A launcher in a Makefile.
LAUNCHER = Layout(
    files={
        "Makefile": "MODEL ?= acme/falcon-instruct\n\nrun:\n\ttext-generation-launcher --model-id $(MODEL) --port 8080\n",
        "Dockerfile": 'ENTRYPOINT ["text-generation-launcher"]\n',
    },
    baseline="Makefile:4",
    command=("text-generation-launcher", "--model-id", "acme/falcon-instruct", "--port", "{port}"),
    apis=("tgi-generate", "chat"),
    model="acme/falcon-instruct",
)
# A workflow that starts servers in the background.
WORKFLOW = Layout(
    files={
        ".github/workflows/e2e.yml": (
            "name: e2e\non: push\njobs:\n  a:\n    runs-on: [self-hosted]\n    steps:\n      - run: |\n"
            "          lmdeploy serve api_server /models/acme-base --backend pytorch --server-port 23333 > log &\n"
            "          sleep 120\n"
        ),
    },
    baseline=".github/workflows/e2e.yml:8",
    command=(
        *("lmdeploy", "serve", "api_server", "/models/acme-base", "--backend", "pytorch"),
        *("--server-port", "{port}"),
    ),
    apis=("completions",),
    model="/models/acme-base",
)
# Programs in C++ with a server among them.
NATIVE = Layout(
    files={
        "scripts/serve.sh": "./build/bin/llama-server -m models/tiny.gguf -c 512 --port 8080\n",
        "CMakeLists.txt": "project(native)\n",
    },
    baseline="scripts/serve.sh:1",
    command=(
        *("./build/bin/llama-server", "-m", "models/tiny.gguf", "-c", "512", "--port", "{port}"),
    ),
    apis=("completions",),
    model="models/tiny.gguf",
)
# A web application in a directory of its own, with a database behind most routes.
FULL_STACK = Layout(
    files={
        "backend/app/__init__.py": "",
        "backend/app/main.py": (
            "from fastapi import FastAPI\nfrom app.api import router\nfrom app.settings import settings\n"
            "app = FastAPI()\napp.include_router(router, prefix=settings.API_PREFIX)\n"
        ),
        "backend/app/api.py": (
            "from fastapi import APIRouter\nfrom app.deps import SessionDep\nrouter = APIRouter()\n\n"
            '@router.get("/health-check/")\nasync def check() -> bool:\n    return True\n\n'
            '@router.get("/users")\ndef users(session: SessionDep):\n    return session.all()\n'
        ),
        "backend/app/settings.py": 'class Settings:\n    API_PREFIX: str = "/api/v1"\n\nsettings = Settings()\n',
        "backend/app/deps.py": "SessionDep = object\n",
        "backend/Dockerfile": 'WORKDIR /app\nCMD ["uvicorn", "--workers", "4", "app.main:app"]\n',
        "backend/pyproject.toml": '[project]\nname = "app"\n[build-system]\nbuild-backend = "hatchling.build"\n',
        "frontend/package.json": "{}\n",
    },
    baseline="backend/Dockerfile:2",
    command=("uvicorn", "--workers", "4", "app.main:app", "--port", "{port}"),
    ready="tcp://127.0.0.1:{port}",
    cwd="backend",
    apis=("routes",),
)
# One file, and a README.
SMALL_APP = Layout(
    files={
        "main.py": (
            "from fastapi import FastAPI\nfrom pydantic import BaseModel\n\n\nclass Text(BaseModel):\n    text: str\n\n\n"
            'app = FastAPI()\n\n\n@app.post("/length")\ndef length(body: Text):\n    return {"length": len(body.text)}\n'
        ),
        "README.md": "# small\n\n```sh\n$ uvicorn main:app --reload\n```\n",
    },
    baseline="README.md:4",
    command=("uvicorn", "main:app", "--port", "{port}"),
    ready="tcp://127.0.0.1:{port}",
    apis=("routes",),
)
# A server of the standard library that speaks OpenAI's API.
OWN_SERVER = Layout(
    files={
        "server.py": (
            'import argparse\nfrom http.server import HTTPServer\n\nMODEL_NAME = "own-llm"\nPATHS = ["/health", "/v1/completions"]\n'
            'parser = argparse.ArgumentParser()\nparser.add_argument("--port", type=int)\n'
        ),
        "run.sh": "cd $(dirname $0)\npython server.py --port 8000 &\n",
    },
    baseline="run.sh:2",
    command=("python", "server.py", "--port", "{port}"),
    apis=("completions",),
    model="own-llm",
)
# A library without any server.
LIBRARY = Layout(
    files={
        "src/lib/__init__.py": "def add(a, b):\n    return a + b\n",
        "pyproject.toml": '[project]\nname = "lib"\n',
        "README.md": "Start it with `vllm serve`, or do not.\n\n    pip install vllm\n",
        "tests/test_lib.py": "def test(): pass\n",
        "scripts/test.sh": "echo 'vllm serve acme' | tee log\npkill -f 'vllm serve'\npython -m pytest tests\n",
    },
    baseline=None,
    apis=(),
)
LAYOUTS = {
    "engine": ENGINE,
    "kv-cache": KV_CACHE,
    "kv-cache-images": KV_CACHE_IMAGES,
    "connector-alone": CONNECTOR_ALONE,
    "disaggregated": DISAGGREGATED,
    "launcher": LAUNCHER,
    "workflow": WORKFLOW,
    "native": NATIVE,
    "full-stack": FULL_STACK,
    "small-app": SMALL_APP,
    "own-server": OWN_SERVER,
    "library": LIBRARY,
}
