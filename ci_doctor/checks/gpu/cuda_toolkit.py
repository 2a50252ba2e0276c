# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which CUDA toolkit would compile here, by its files or by `nvcc --version`."""

import json
import re
import shutil
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext

# `Cuda compilation tools, release 12.8, V12.8.93`.
_RELEASE = re.compile(r"release (\d+\.\d+)")
_HOMES: Final = ("CUDA_HOME", "CUDA_PATH")
_DEFAULT: Final = Path("usr/local/cuda")


class CudaToolkit(Struct, frozen=True, kw_only=True):
    """A toolkit: the directory above `bin/nvcc`, and its version."""

    home: Path
    version: str


def read_toolkit(context: CheckContext) -> CudaToolkit | None:
    """The toolkit that PyTorch's extensions would use; None without one. For CheckContext.shared.

    That is CUDA_HOME, else the one of `nvcc` on PATH, else /usr/local/cuda (torch.utils.
    cpp_extension). Raises OSError if `nvcc` cannot be started.
    """
    home = _home(context)
    if home is None:
        return None
    version = _version_on_disk(home) or _version_by_nvcc(context, home)
    if version is None:
        return None
    return CudaToolkit(home=home, version=version)


def _home(context: CheckContext) -> Path | None:
    for name in _HOMES:
        value = context.environ.get(name)
        if value:
            return context.cwd / value
    nvcc = shutil.which("nvcc", path=context.environ.get("PATH", ""))
    if nvcc is not None:
        return Path(nvcc).resolve().parent.parent
    home = context.root / _DEFAULT
    if home.exists():
        return home
    return None


def _version_on_disk(home: Path) -> str | None:
    """Of version.json, which a toolkit has since 11.1."""
    try:
        value = json.loads((home / "version.json").read_bytes())
        version = value["cuda_nvcc"]["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(version)


def _version_by_nvcc(context: CheckContext, home: Path) -> str | None:
    nvcc = home / "bin" / "nvcc"
    if not nvcc.exists():
        return None
    ran = context.run((str(nvcc), "--version"))
    match = _RELEASE.search(ran.stdout)
    if match is None:
        raise UndeterminedError(f"`{nvcc} --version` names no release: {ran.last_words}")
    return match[1]
