# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: which libraries a running server has loaded, and with which determinism variables it was started."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ci_doctor.environment.determinism_table import BY_NAME
from ci_doctor.identity.elf import build_id
from ci_doctor.identity.libraries import normal

PROC = Path("/proc")
# NVIDIA's files bear their versions in their names; those of others bear that of an interface, which stays the same.
_VERSIONED = (
    rb"libcublas|libcublasLt|libcudnn[a-z_]*|libnccl|libcudart|libcuda|libcusparse|libcusparseLt|libcufft|libcurand"
    rb"|libcusolver|libnvrtc|libnvJitLink|libnvshmem_host|libcutensor"
)
_OTHERS = (
    rb"libtorch[a-z_]*|libc10[a-z_]*|libopenblas[a-z0-9_]*|libscipy_openblas[a-z0-9_]*|libblas|libblis[a-z0-9-]*"
    rb"|libmkl_[a-z0-9_]+|libgomp|libiomp5|libomp|libdnnl|libtriton|libamdhip64|librocblas|libhipblas|libhipblaslt"
    rb"|libMIOpen|librccl"
)
_LIBRARY = re.compile(
    rb" (/[^\n]*/((?:"
    + _VERSIONED
    + rb"|"
    + _OTHERS
    + rb")(?:[-.][^/\n]*)?\.so[0-9.]*))(?: \(deleted\))?$",
    re.MULTILINE,
)
# Compiled on this machine: the directory is named by what was compiled, or the file is.
_KERNEL = re.compile(
    rb" (/[^\n]*/\.?(flashinfer|triton)/[^\n]*?([^/\n]+)/([^/\n]+\.so))(?: \(deleted\))?$",
    re.MULTILINE,
)
_IS_VERSIONED = re.compile(rf"({_VERSIONED.decode()})\.so\.(\d+(?:\.\d+)+)")
_HASH = re.compile(r"-[0-9a-f]{8}(?=[.-])")
_NAMED = re.compile(r"(.+?\.so(?:\.\d+)?)(?:\.\d+)*")
_LIMIT = 4 << 20


def loaded(pids: Iterable[int], proc: Path = PROC) -> Mapping[str, str]:
    """What the processes of a server have mapped, and started with: `libcublas.so.12` -> `12.4.5.8`, `env.NAME` -> value.

    Where processes differ, each value is told once. What cannot be read is `unknown: ` and the reason; a process that has
    gone is left out. The variables are those at exec: what a process sets itself afterwards does not show (proc_pid_environ(5)).
    """
    facts: dict[str, set[str]] = {}
    kernels: dict[str, set[str]] = {}
    known: dict[bytes, tuple[str, str]] = {}
    for pid in pids:
        directory = proc / str(pid)
        try:
            maps = (directory / "maps").read_bytes()
            environ = (directory / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError as error:
            facts.setdefault("loaded", set()).add(
                f"unknown: a process cannot be read: {error.strerror}"
            )
            continue
        for path, name in set(_LIBRARY.findall(maps)):
            if path not in known:
                known[path] = _library(path, name, directory / "root")
            facts.setdefault(known[path][0], set()).add(known[path][1])
        for name, value in _kernels(maps):
            kernels.setdefault(name, set()).add(value)
        for name, value in _variables(environ):
            facts.setdefault(f"env.{name}", set()).add(value)
    facts |= {name: {_summed(values)} for name, values in kernels.items()}
    return {name: " and ".join(sorted(facts[name])) for name in sorted(facts)}


def _library(raw: bytes, raw_name: bytes, root: Path) -> tuple[str, str]:
    """A library's name without what differs from build to build, and its version."""
    path, name = raw.decode(errors="surrogateescape"), raw_name.decode(errors="replace")
    short = _NAMED.fullmatch(_HASH.sub("", name))
    return short[1] if short else name, _version(Path(path), name, root)


def _version(path: Path, name: str, root: Path) -> str:
    """By its name; else by the wheel that it lies in, the build id beside it; else by its content."""
    if found := _IS_VERSIONED.fullmatch(name):
        return found[2]
    # Another mount namespace has other files under the same path.
    inside = root / str(path).lstrip("/")
    wheel = _wheel(path, root)
    if wheel and wheel.startswith("nvidia-"):
        return wheel.partition(" ")[2]
    try:
        built = build_id(inside)
        parts = [*([wheel] if wheel else []), *([f"build id {built[:12]}"] if built else [])]
        return ", ".join(parts) or _content(inside)
    except OSError as error:
        return wheel or f"unknown: {error.strerror}"


def _content(path: Path) -> str:
    with path.open("rb") as file:
        return f"first bytes {hashlib.sha256(file.read(_LIMIT)).hexdigest()[:12]}, size {path.stat().st_size}"


def _wheel(path: Path, root: Path) -> str | None:
    """`numpy 2.3.1`: the distribution whose RECORD names the file; a wheel's own libraries lie in NAME.libs."""
    for parent in path.parents:
        if parent.name in {"site-packages", "dist-packages"}:
            below = path.relative_to(parent)
            return _recorded(root / str(parent).lstrip("/"), below.parts[0], str(below))
    return None


def _recorded(site: Path, top: str, below: str) -> str | None:
    first = normal(top.removesuffix(".libs"))
    try:
        folders = [folder for folder in site.glob("*.dist-info") if _may_own(folder.name, first)]
        for folder in sorted(folders, key=lambda folder: not normal(folder.name).startswith(first)):
            if f"{below},".encode() in (folder / "RECORD").read_bytes()[:_LIMIT]:
                name, _, version = folder.name.removesuffix(".dist-info").partition("-")
                return f"{normal(name)} {version}"
    except OSError:
        return None
    return None


def _may_own(folder: str, first: str) -> bool:
    """A distribution bears the name of its package nearly always, and only such a one is looked into."""
    return normal(folder).startswith((first, f"py{first}"))


def _kernels(maps: bytes) -> Iterator[tuple[str, str]]:
    for path, family, folder, name in set(_KERNEL.findall(maps)):
        if b"/site-packages/" not in path and b"/dist-packages/" not in path:
            # FlashInfer names its files by what they do; Triton names the directories, by a hash.
            yield (
                f"{family.decode()} kernels",
                (name if family == b"flashinfer" else folder).decode(errors="replace"),
            )


def _summed(values: set[str]) -> str:
    digest = hashlib.sha256("\n".join(sorted(values)).encode()).hexdigest()[:12]
    return f"{len(values)} compiled here, names {digest}"


def _variables(environ: bytes) -> Iterator[tuple[str, str]]:
    for entry in environ.split(b"\0"):
        name, _, value = entry.decode(errors="replace").partition("=")
        if name in BY_NAME and not name.endswith("_DIR"):
            yield name, value or "''"
