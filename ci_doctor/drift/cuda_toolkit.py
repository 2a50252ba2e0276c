# SPDX-License-Identifier: Apache-2.0
"""Reads files: the version of the CUDA toolkit that a build would use. Nothing is started."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from ci_doctor.identity.identity import Identity

_HEADER = re.compile(r"#define\s+CUDA_VERSION\s+(\d+)")
_TEXT = re.compile(r"CUDA Version (\d+(?:\.\d+)+)")


def cuda_toolkit(environ: Mapping[str, str], root: Path = Path("/")) -> Identity:
    """`cuda.toolkit`: its version, `none` without one."""
    directories = list(_directories(environ, root))
    for directory in directories:
        version = _version(directory)
        if version is not None:
            return Identity.of({"cuda.toolkit": version})
    if not directories:
        return Identity.of({"cuda.toolkit": "none"})
    reason = f"{directories[0]} holds no file that names its version"
    return Identity.of({}, {"cuda.toolkit": reason})


def _directories(environ: Mapping[str, str], root: Path) -> Iterator[Path]:
    """In the order of torch.utils.cpp_extension: the variables, nvcc on PATH, the usual place."""
    candidates = [Path(environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    compiler = shutil.which("nvcc", path=environ.get("PATH", ""))
    if compiler is not None:
        candidates.append(Path(compiler).resolve().parent.parent)
    candidates.append(root / "usr/local/cuda")
    for candidate in candidates:
        if candidate.is_dir():
            yield candidate


def _version(directory: Path) -> str | None:
    try:
        versions = json.loads((directory / "version.json").read_bytes())
        return str(versions["cuda"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    match = _TEXT.search(_content(directory / "version.txt"))
    if match is not None:
        return match[1]
    match = _HEADER.search(_content(directory / "include" / "cuda.h"))
    if match is None:
        return None
    # 12040 is 12.4 (cuda.h).
    number = int(match[1])
    return f"{number // 1000}.{number % 1000 // 10}"


def _content(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
