# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: asks a compiler for its version, and finds CUDA's home directory."""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from ci_doctor.caches.families.unknown_fact import UnknownFactError
from ci_doctor.system.processes.limited_run import run_limited

_TIMEOUT_S = 10
NONE = "none"


def compiler_version(environ: Mapping[str, str]) -> str:
    """The C++ compiler that torch's extensions and TorchInductor run: $CXX, else g++.

    Its first line and a digest of all lines; `none` without a compiler. Raises UnknownFactError.
    """
    words = (environ.get("CXX") or "g++").split()
    program = shutil.which(words[0], path=environ.get("PATH", ""))
    return _version([program, *words[1:]], environ) if program else NONE


def nvcc_version(environ: Mapping[str, str]) -> str:
    """CUDA's compiler in `cuda_home`; `none` without one. Raises UnknownFactError."""
    home = cuda_home(environ)
    program = Path(home, "bin", "nvcc")
    return _version([str(program)], environ) if program.is_file() else NONE


def cuda_home(environ: Mapping[str, str]) -> str:
    """As torch's cpp_extension finds it: $CUDA_HOME, $CUDA_PATH, nvcc on PATH, /usr/local/cuda."""
    if home := environ.get("CUDA_HOME") or environ.get("CUDA_PATH"):
        return home
    if nvcc := shutil.which("nvcc", path=environ.get("PATH", "")):
        return str(Path(nvcc).parent.parent)
    return "/usr/local/cuda" if Path("/usr/local/cuda").exists() else NONE


def _version(words: list[str], environ: Mapping[str, str]) -> str:
    try:
        run = run_limited(
            [*words, "--version"], timeout_s=_TIMEOUT_S, cwd=Path("/"), environ=environ
        )
    except OSError as error:
        raise UnknownFactError(f"{words[0]} cannot be started: {error.strerror}") from error
    if run.exit_code != 0 or not run.output.strip():
        raise UnknownFactError(f"{words[0]} --version ended with {run.last_line}")
    digest = hashlib.sha256(run.output.encode()).hexdigest()[:12]
    return f"{run.output.strip().splitlines()[0]}, output {digest}"
