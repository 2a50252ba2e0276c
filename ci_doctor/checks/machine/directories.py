# SPDX-License-Identifier: Apache-2.0
"""Pure. The directories that a job writes to: temporary ones, caches, the checkout, the report."""

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from msgspec import Struct


class DirectoryRole(Enum):
    """What a directory is for."""

    TEMPORARY = "temporary files"
    OTHER_TEMPORARY = "temporary files of programs that ignore TMPDIR"
    WORKING = "the job's directory"
    REPORT = "reports"
    JIT_CACHE = "compiled kernels"
    DOWNLOAD_CACHE = "downloads, and what can be made again"
    CONFIGURED = "named in [doctor] caches"
    SYSTEM = "a service of the machine"


class JobDirectory(Struct, frozen=True, kw_only=True):
    """A directory, and the name by which people know it: a variable, or its usual place."""

    path: Path
    name: str
    role: DirectoryRole


# variable, its place below $XDG_CACHE_HOME if unset (None: there is no such default), role
_CACHES: Final[tuple[tuple[str, str | None, DirectoryRole], ...]] = (
    ("HF_HOME", "huggingface", DirectoryRole.DOWNLOAD_CACHE),
    ("HF_HUB_CACHE", None, DirectoryRole.DOWNLOAD_CACHE),
    ("HUGGINGFACE_HUB_CACHE", None, DirectoryRole.DOWNLOAD_CACHE),
    ("HF_DATASETS_CACHE", None, DirectoryRole.DOWNLOAD_CACHE),
    ("HF_XET_CACHE", None, DirectoryRole.DOWNLOAD_CACHE),
    ("TORCH_HOME", None, DirectoryRole.DOWNLOAD_CACHE),
    ("PIP_CACHE_DIR", "pip", DirectoryRole.DOWNLOAD_CACHE),
    ("UV_CACHE_DIR", "uv", DirectoryRole.DOWNLOAD_CACHE),
    ("VLLM_CACHE_ROOT", "vllm", DirectoryRole.JIT_CACHE),
    ("TORCHINDUCTOR_CACHE_DIR", None, DirectoryRole.JIT_CACHE),
    ("DG_JIT_CACHE_DIR", None, DirectoryRole.JIT_CACHE),
    ("SGLANG_DG_CACHE_DIR", None, DirectoryRole.JIT_CACHE),
    ("TILELANG_CACHE_DIR", None, DirectoryRole.JIT_CACHE),
    ("TVM_FFI_CACHE_DIR", None, DirectoryRole.JIT_CACHE),
    ("CCACHE_DIR", None, DirectoryRole.DOWNLOAD_CACHE),
)
# The same for those whose usual place is in the home directory itself.
_HOME_CACHES: Final = (
    ("TRITON_CACHE_DIR", ".triton/cache"),
    ("CUDA_CACHE_PATH", ".nv/ComputeCache"),
    ("FLASHINFER_WORKSPACE_BASE", ".cache/flashinfer"),
)
_DOCKER: Final = Path("/var/lib/docker")


def job_directories(
    environ: Mapping[str, str], cwd: Path, caches: Sequence[str]
) -> tuple[JobDirectory, ...]:
    """Each directory once, the first name wins. `caches` are further ones, of the configuration.

    A relative path counts from `cwd`, as the job's programs take it.
    """
    home = environ.get("HOME")
    directories = [
        *_temporary(environ),
        JobDirectory(path=cwd, name="the working directory", role=DirectoryRole.WORKING),
    ]
    report = environ.get("CI_DOCTOR_REPORT_DIR")
    if report:
        directories.append(_named(report, "CI_DOCTOR_REPORT_DIR", DirectoryRole.REPORT))
    directories.extend(_caches(environ, home))
    directories.extend(_named(cache, cache, DirectoryRole.CONFIGURED) for cache in caches)
    directories.append(JobDirectory(path=_DOCKER, name=str(_DOCKER), role=DirectoryRole.SYSTEM))
    return _each_once(directories, cwd, home)


def _temporary(environ: Mapping[str, str]) -> list[JobDirectory]:
    named = environ.get("TMPDIR")
    role = DirectoryRole.TEMPORARY
    directories = []
    if named:
        directories.append(_named(named, "TMPDIR", role))
        role = DirectoryRole.OTHER_TEMPORARY
    directories.append(_named("/tmp", "/tmp", role))
    directories.append(_named("/var/tmp", "/var/tmp", DirectoryRole.OTHER_TEMPORARY))
    return directories


def _caches(environ: Mapping[str, str], home: str | None) -> list[JobDirectory]:
    directories = []
    cache_home = environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else None)
    for variable, usual, role in _CACHES:
        value = environ.get(variable)
        if value:
            directories.append(_named(value, variable, role))
        elif usual is not None and cache_home is not None:
            path = f"{cache_home}/{usual}"
            directories.append(_named(path, _shown(path, home), role))
    for variable, usual in _HOME_CACHES:
        value = environ.get(variable)
        if value:
            directories.append(_named(value, variable, DirectoryRole.JIT_CACHE))
        elif home:
            directories.append(_named(f"{home}/{usual}", f"~/{usual}", DirectoryRole.JIT_CACHE))
    return directories


def _shown(path: str, home: str | None) -> str:
    if home and path.startswith(f"{home}/"):
        return f"~/{path[len(home) + 1 :]}"
    return path


def _named(path: str, name: str, role: DirectoryRole) -> JobDirectory:
    return JobDirectory(path=Path(path), name=name, role=role)


def _each_once(
    directories: Sequence[JobDirectory], cwd: Path, home: str | None
) -> tuple[JobDirectory, ...]:
    by_path: dict[Path, JobDirectory] = {}
    for directory in directories:
        path = cwd / _without_tilde(directory.path, home)
        by_path.setdefault(path, JobDirectory(path=path, name=directory.name, role=directory.role))
    return tuple(by_path.values())


def _without_tilde(path: Path, home: str | None) -> Path:
    if home and path.parts and path.parts[0] == "~":
        return Path(home).joinpath(*path.parts[1:])
    return path
