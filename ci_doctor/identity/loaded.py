# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: the libraries that a running server has loaded, and its determinism variables."""

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from ci_doctor.environment.determinism_table import BY_NAME
from ci_doctor.machine.packages import installed, is_recorded, normal

PROC = Path("/proc")
# NVIDIA's files have their versions in their names. Those of others have the version of an
# interface, which stays the same.
_VERSIONED = (
    rb"libcublas|libcublasLt|libcudnn[a-z_]*|libnccl|libcudart|libcuda|libcusparse|libcusparseLt"
    rb"|libcufft|libcurand|libcusolver|libnvrtc|libnvJitLink|libnvshmem_host|libcutensor"
)
_OTHERS = (
    rb"libtorch[a-z_]*|libc10[a-z_]*|libopenblas[a-z0-9_]*|libscipy_openblas[a-z0-9_]*|libblas"
    rb"|libblis[a-z0-9-]*|libmkl_[a-z0-9_]+|libgomp|libiomp5|libomp|libdnnl|libtriton|libamdhip64"
    rb"|librocblas|libhipblas|libhipblaslt|libMIOpen|librccl"
)
_NAMES = rb"(?:" + _VERSIONED + rb"|" + _OTHERS + rb")"
_LIBRARY = re.compile(
    rb" (/[^\n]*/(" + _NAMES + rb"(?:[-.][^/\n]*)?\.so[0-9.]*))(?: \(deleted\))?$",
    re.MULTILINE,
)
# Compiled on this machine: the directory or the file is named after what was compiled.
_KERNEL = re.compile(
    rb" (/[^\n]*/\.?(flashinfer|triton)/[^\n]*?([^/\n]+)/([^/\n]+\.so))(?: \(deleted\))?$",
    re.MULTILINE,
)
_IS_VERSIONED = re.compile(rf"({_VERSIONED.decode()})\.so\.(\d+(?:\.\d+)+)")
# auditwheel inserts eight digits of a hash into the names of the libraries that it bundles.
_HASH = re.compile(r"-[0-9a-f]{8}(?=[.-])")
_INTERFACE = re.compile(r"(.+?\.so(?:\.\d+)?)(?:\.\d+)*")
_LIMIT = 4 << 20
# What the names of facts about compiled kernels end with.
_OF_KERNELS = " kernels"
_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian: every machine that serves models
_NOTE = 4
_BUILD_ID = 3
_NOTE_BYTES = 1 << 16


def loaded(pids: Iterable[int], proc: Path = PROC) -> Mapping[str, str]:
    """What the processes of a server have mapped, and their variables at exec.

    `libcublas.so.12` -> `12.4.5.8`, `env.NAME` -> value. If processes differ, each value is listed
    once. What cannot be read is `unknown: ` and the reason; a process that has ended is left out.
    A variable that a process sets itself later does not show (proc_pid_environ(5)).
    """
    # Most processes of a server map the same files, and reading one takes milliseconds.
    libraries: dict[bytes, tuple[str, str]] = {}
    values: dict[str, set[str]] = {}
    for pid in pids:
        for name, value in _facts_of(proc / str(pid), libraries):
            values.setdefault(name, set()).add(value)
    facts = {
        name: _summed(each) if name.endswith(_OF_KERNELS) else " and ".join(sorted(each))
        for name, each in values.items()
    }
    return dict(sorted(facts.items()))


def _facts_of(process: Path, libraries: dict[bytes, tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The facts of one process; `libraries` keeps what was read of each for the next process."""
    try:
        maps = (process / "maps").read_bytes()
        environ = (process / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return
    except OSError as error:
        yield "loaded", f"unknown: a process cannot be read: {error.strerror}"
        return
    # A library is mapped in several parts.
    for path, name in set(_LIBRARY.findall(maps)):
        if path not in libraries:
            libraries[path] = _library(path, name, process / "root")
        yield libraries[path]
    yield from _kernels(maps)
    for entry in environ.split(b"\0"):
        variable, _, value = entry.decode(errors="replace").partition("=")
        if variable in BY_NAME and not variable.endswith("_DIR"):
            yield f"env.{variable}", value or "''"


def _library(raw: bytes, raw_name: bytes, root: Path) -> tuple[str, str]:
    """A library's name without the parts that differ from build to build, and its version."""
    path = raw.decode(errors="surrogateescape")
    name = raw_name.decode(errors="replace")
    short = _INTERFACE.fullmatch(_HASH.sub("", name))
    return short[1] if short else name, _version(Path(path), name, root)


def _version(path: Path, name: str, root: Path) -> str:
    """By its name; else by its wheel, with the build id beside it; else by its content."""
    match = _IS_VERSIONED.fullmatch(name)
    if match:
        return match[2]
    # Another mount namespace has other files under the same path.
    inside = root / str(path).lstrip("/")
    wheel = _wheel(path, root)
    if wheel and wheel.startswith("nvidia-"):
        return wheel.partition(" ")[2]
    try:
        build = build_id(inside)
        if build:
            text = f"build id {build[:12]}"
            return f"{wheel}, {text}" if wheel else text
        return wheel or _content(inside)
    except OSError as error:
        return wheel or f"unknown: {error.strerror}"


def _content(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(_LIMIT)).hexdigest()[:12]
    return f"first bytes {digest}, size {path.stat().st_size}"


def _wheel(path: Path, root: Path) -> str | None:
    """`numpy 2.3.1`: the distribution whose RECORD names the file."""
    for parent in path.parents:
        if parent.name in {"site-packages", "dist-packages"}:
            below = path.relative_to(parent)
            return _recorded(root / str(parent).lstrip("/"), below.parts[0], str(below))
    return None


def _recorded(site: Path, top: str, below: str) -> str | None:
    """The distribution in `site` that installed the file `below`, in the directory `top`."""
    # auditwheel puts a wheel's own libraries into NAME.libs.
    package = normal(top.removesuffix(".libs"))

    # The names agree, as they mostly do: reading every RECORD would take a second.
    candidates = installed([site], lambda name: name.startswith((package, f"py{package}")))
    for each in sorted(candidates, key=lambda each: not each.name.startswith(package)):
        if each.is_wheel and is_recorded(each.folder, below):
            return each.words
    return None


def _kernels(maps: bytes) -> Iterator[tuple[str, str]]:
    for path, family, folder, name in set(_KERNEL.findall(maps)):
        if b"/site-packages/" in path or b"/dist-packages/" in path:
            continue
        # FlashInfer names its files after what they do; Triton names the directories, by a hash.
        kernel = name if family == b"flashinfer" else folder
        yield f"{family.decode()}{_OF_KERNELS}", kernel.decode(errors="replace")


def _summed(values: set[str]) -> str:
    digest = hashlib.sha256("\n".join(sorted(values)).encode()).hexdigest()[:12]
    return f"{len(values)} compiled here, names {digest}"


def build_id(path: Path) -> str | None:
    """The build id in hex (NT_GNU_BUILD_ID, elf(5)); None if the file has none, or is damaged.

    Raises OSError.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64)
            if not head.startswith(_MAGIC) or len(head) < 64:
                return None
            # Of the ELF header: e_phoff, then e_phentsize and e_phnum.
            (offset,) = struct.unpack_from("<Q", head, 32)
            size, count = struct.unpack_from("<HH", head, 54)
            file.seek(offset)
            headers = file.read(size * count)
            if size < 56 or len(headers) < size * count:
                return None
            for start in range(0, len(headers), size):
                header = headers[start : start + size]
                (kind,) = struct.unpack_from("<I", header)
                build = _note(file, header) if kind == _NOTE else None
                if build is not None:
                    return build
    except (ValueError, OverflowError, struct.error):  # offsets that no file has
        pass
    return None


def _note(file: BinaryIO, header: bytes) -> str | None:
    """The build id among the notes of one program header."""
    # p_offset and p_filesz.
    (offset,) = struct.unpack_from("<Q", header, 8)
    (length,) = struct.unpack_from("<Q", header, 32)
    file.seek(offset)
    notes = file.read(min(length, _NOTE_BYTES))
    start = 0
    while start + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, start)
        name = start + 12
        body = name + _aligned(name_size)
        if kind == _BUILD_ID and notes[name : name + 4] == b"GNU\0":
            return notes[body : body + size].hex() or None
        start = body + _aligned(size)
    return None


def _aligned(length: int) -> int:
    """Names and descriptors of notes are padded to four bytes."""
    return length + 3 & ~3
