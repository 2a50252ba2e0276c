# SPDX-License-Identifier: Apache-2.0
"""Acts on the folder of the environments: models, command lines, and the rows of what was run.

A row is written when its run has ended, whole or not at all. So each table can be continued after a stop.
"""

import contextlib
import fcntl
import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from real_servers.environments import home, python_of

HERE = Path(__file__).resolve().parent
VLLM = "vllm-0.32.0"
CONTEXT = 1024
# What keeps vLLM on processors, and off the network.
ENVIRON = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


class MissingEnvironmentError(Exception):
    """An environment is not there; the message says how to make it."""


def interpreter(environment: str = VLLM) -> Path:
    """Raises MissingEnvironmentError."""
    python = python_of(environment)
    if python is None:
        raise MissingEnvironmentError(
            f"{environment} is not in {home()}. Run: python benchmarks/real_servers.py build {environment}"
        )
    return python


def model(kind: str) -> Path:
    """The folder of a model or adapter, made at the first use. Raises MissingEnvironmentError, CalledProcessError."""
    folder = home() / "models" / kind
    if not (folder / "ci-doctor-complete").exists():
        words = [interpreter(), HERE / "model.py", kind, folder]
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
        (folder / "ci-doctor-complete").touch()
    return folder


def vllm(flags: str, kind: str = "llama", environment: str = VLLM) -> str:
    """The command line of a server, with `{port}` for ci-doctor; the model's name is `m`."""
    # By its interpreter: the first line of the program in a copied environment names that of the original.
    python = interpreter(environment)
    fixed = f"--served-model-name m --max-model-len {CONTEXT} --port {{port}}"
    return f"{shlex.join([str(python), str(python.with_name('vllm')), 'serve', str(model(kind))])} {fixed} {flags}".strip()


def folder_of(table: str, name: str) -> Path:
    """Where one run of a table keeps everything."""
    folder = home() / os.environ.get("CI_DOCTOR_REAL_RUNS", "runs") / table / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kept_row(table: str, name: str) -> dict[str, Any] | None:
    """What an earlier run has measured; None if none has ended."""
    path = folder_of(table, name) / "row.json"
    if not path.exists():
        return None
    row: dict[str, Any] = json.loads(path.read_text())
    return row


def keep_row(table: str, name: str, row: dict[str, Any]) -> None:
    path = folder_of(table, name) / "row.json"
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(row, indent=1, ensure_ascii=False))
    beside.replace(path)


def load() -> float:
    """The machine's load average of the last minute."""
    return round(os.getloadavg()[0], 1)


@contextlib.contextmanager
def machine() -> Iterator[None]:
    """One real server is measured at a time, whoever asks."""
    home().mkdir(parents=True, exist_ok=True)
    with (home() / "machine.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
