# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: public CI scripts as they are, with a toy server in the place of each program.

They are cloned into a temporary folder, or read from `--mirrors FOLDER` with bare `OWNER+NAME/repo`. Each run has a
network namespace of its own, because their ports are fixed.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

SERVER = Path(__file__).parents[2] / "tests/support/programs/toy_server.py"
# A program named `vllm`, and a `python3` that is the client, the proxy or itself.
PROGRAMS = {
    "vllm": """#!/bin/sh
port=8000; last=
for word in "$@"; do [ "$last" = --port ] && port=$word; last=$word; done
eval "fault=\\${{FAULT_$port:-}}"
exec {python} {server} --port $port --load 2 $fault
""",
    "python3": """#!/bin/sh
case "$*" in
  *quart*) exit 0 ;;
  *proxy*) exec {python} {server} --port ${{PROXY_PORT:-8000}} ;;
  *eval*|*test*|*bench*) exec {python} {client} "$@" ;;
esac
exec {python} "$@"
""",
}
# It asks the port that its words name for a minute, as often as it is refused.
CLIENT = """import re, sys, time, urllib.request
port = (re.findall(r"--port (\\d+)", " ".join(sys.argv)) or re.findall(r":(\\d{4})", " ".join(sys.argv)) or ["8000"])[0]
end, good = time.time() + 60, 0
while time.time() < end and good < 100:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/v1", timeout=2).read()
        good += 1
    except OSError:
        pass
    time.sleep(0.1)
for word in sys.argv:
    if word.endswith(".json"):
        open(word, "w").write('{"accuracy": 0.9}')
sys.exit(0 if good >= 100 else 1)
"""


class Public(NamedTuple):
    """A script of a public repository: what is fetched, the command, and the port of its first server."""

    name: str
    repository: str
    paths: tuple[str, ...]
    command: str
    port: int


VLLM = "vllm-project/vllm"
EPLB = ".buildkite/scripts/scheduled_integration_test/deepseek_v2_lite_ep_eplb.sh"
BLOCK = ".buildkite/scripts/scheduled_integration_test/qwen30b_a3b_fp8_block_ep_eplb.sh"
DISAGGREGATED = "examples/online_serving/disaggregated_prefill.sh"
LIBRARY = "benchmarks/benchmark_lib.sh"
PUBLIC = (
    Public("vLLM, expert parallel", VLLM, (EPLB,), f"bash {EPLB} 0.25 5 8010", 8010),
    Public("vLLM, block FP8", VLLM, (BLOCK,), f"bash {BLOCK} 0.8 5 8020", 8020),
    Public("vLLM, disaggregated prefill", VLLM, (DISAGGREGATED,), f"bash {DISAGGREGATED}", 8100),
    Public(
        "InferenceX, wait_for_server_ready",
        "SemiAnalysisAI/InferenceX",
        (LIBRARY,),
        f"bash -c 'source {LIBRARY}; vllm serve m --port 8888 > server.log 2>&1 & PID=$!; wait_for_server_ready "
        "--port 8888 --server-log server.log --server-pid $PID; python3 bench.py --port 8888'",
        8888,
    ),
)
FAULTS = {
    "none": "",
    "death before ready": "--before",
    "end with code 0 before ready": "--before --code 0",
    "death under load": "--end 3",
    "killed under load": "--end 3 --signal 9",
}


def fetch(script: Public, folder: Path, mirrors: Path | None) -> str:
    """Put the files of a script where they lie in its repository; which one: a mirror may be a fork's."""
    bare, repository = folder / ".fetched", script.repository
    if mirrors is None:
        url = f"https://github.com/{script.repository}"
        subprocess.run(["git", "clone", "-q", "--depth", "1", "--bare", url, bare], check=True)
    else:
        names = sorted(mirrors.glob(f"*+{script.repository.partition('/')[2]}/repo"))
        bare = next(name for name in names if _has(name, script.paths[0]))
        repository = bare.parent.name.replace("+", "/")
    for path in script.paths:
        content = subprocess.run(
            ["git", "-C", bare, "show", f"HEAD:{path}"], check=True, capture_output=True
        ).stdout
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return repository


def _has(bare: Path, path: str) -> bool:
    return subprocess.run(["git", "-C", bare, "cat-file", "-e", f"HEAD:{path}"], stderr=subprocess.DEVNULL, check=False).returncode == 0  # fmt: skip


def prepare(folder: Path) -> Path:
    """The folder of the programs."""
    programs = folder / "programs"
    programs.mkdir()
    client = programs / "client.py"
    client.write_text(CLIENT)
    for name, text in PROGRAMS.items():
        (programs / name).write_text(
            text.format(python=sys.executable, server=SERVER, client=client)
        )
        (programs / name).chmod(0o755)
    return programs


def run(
    command: str, folder: Path, environment: dict[str, str], limit_s: float
) -> tuple[int | None, float]:
    """The status, None if the limit came first, and the seconds."""
    alone = ["unshare", "-rnp", "--fork", "--kill-child", "--mount-proc"]
    inner = f"ip link set lo up; {command}"
    begin = time.monotonic()
    process = subprocess.Popen(
        [*alone, "bash", "-c", inner], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=(folder / "stderr").open("wb"),
    )  # fmt: skip
    try:
        status: int | None = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        status = None
        process.kill()
        process.wait()
    return status, time.monotonic() - begin
