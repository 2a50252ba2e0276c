# SPDX-License-Identifier: Apache-2.0
"""Reads files: which CUDA toolkit would compile here, and its version. Nothing is started."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.machine.host import content_of

_DEFAULT: Final = Path("usr/local/cuda")
_HEADER = re.compile(r"#define\s+CUDA_VERSION\s+(\d+)")
_TEXT = re.compile(r"CUDA Version (\d+(?:\.\d+)+)")
# A script in its place: `exec /usr/local/cuda-13.0/bin/nvcc "$@"`.
_WRAPPED = re.compile(r"^#!.*?(/[^\s\"']+)/bin/nvcc\b", re.DOTALL)
# `Cuda compilation tools, release 12.8, V12.8.93`.
_RELEASE = re.compile(r"release (\d+\.\d+)")


class CudaToolkit(Struct, frozen=True, kw_only=True):
    """A toolkit: the directory above `bin/nvcc`, and its version, None if no file names it."""

    home: Path
    version: str | None

    @property
    def nvcc(self) -> Path:
        """Its compiler, which may be missing."""
        return self.home / "bin" / "nvcc"


def read_toolkit(
    environ: Mapping[str, str], cwd: Path = Path("/"), root: Path = Path("/")
) -> CudaToolkit | None:
    """The toolkit that PyTorch's extensions would use; None without one.

    That is $CUDA_HOME, else $CUDA_PATH, else the one of `nvcc` on PATH, else /usr/local/cuda
    (torch.utils.cpp_extension, `_find_cuda_home`).
    """
    home = _home(environ, cwd, root)
    return None if home is None else CudaToolkit(home=home, version=_version(home))


def nvcc_release(output: str) -> str | None:
    """The release, such as `12.8`, in the output of `nvcc --version`."""
    match = _RELEASE.search(output)
    return None if match is None else match[1]


def _home(environ: Mapping[str, str], cwd: Path, root: Path) -> Path | None:
    named = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
    if named:
        return cwd / named
    nvcc = shutil.which("nvcc", path=environ.get("PATH", ""))
    if nvcc is not None:
        wrapped = _WRAPPED.search(_head(Path(nvcc)))
        if wrapped is not None and Path(wrapped[1], "bin", "nvcc").exists():
            return Path(wrapped[1])
        real = Path(nvcc).resolve().parent.parent
        # A link to ccache leads elsewhere.
        return real if (real / "bin" / "nvcc").exists() else Path(nvcc).absolute().parent.parent
    home = root / _DEFAULT
    return home if home.exists() else None


def _version(home: Path) -> str | None:
    """By version.json, which a toolkit has since 11.1, else by version.txt, else by cuda.h."""
    try:
        versions = json.loads((home / "version.json").read_bytes())
        part = versions.get("cuda") or versions["cuda_nvcc"]
        return str(part["version"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    match = _TEXT.search(content_of(home / "version.txt"))
    if match is not None:
        return match[1]
    match = _HEADER.search(content_of(home / "include" / "cuda.h"))
    if match is None:
        return None
    number = int(match[1])  # 12040 is 12.4 (cuda.h)
    return f"{number // 1000}.{number % 1000 // 10}"


def _head(path: Path) -> str:
    """The first bytes of a program, which may have fifty million."""
    try:
        with path.open("rb") as file:
            return file.read(4096).decode(errors="replace")
    except OSError:
        return ""
