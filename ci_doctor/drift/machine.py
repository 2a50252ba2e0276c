# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: hardware, driver, limits and system, as facts. Nothing is started."""

import os
import resource
from collections.abc import Callable, Mapping
from pathlib import Path

from ci_doctor.drift.container import container_image
from ci_doctor.drift.control_group import control_group
from ci_doctor.drift.cuda_toolkit import cuda_toolkit
from ci_doctor.drift.gpus import gpu_facts
from ci_doctor.identity.hardware import hardware
from ci_doctor.identity.identity import Identity
from ci_doctor.render.formatting import size
from ci_doctor.system.begun_call import TimedOut, bounded

_LIMITS = {
    "ulimit.core": resource.RLIMIT_CORE,
    "ulimit.locked-memory": resource.RLIMIT_MEMLOCK,
    "ulimit.open-files": resource.RLIMIT_NOFILE,
    "ulimit.processes": resource.RLIMIT_NPROC,
    "ulimit.stack": resource.RLIMIT_STACK,
    "ulimit.virtual-memory": resource.RLIMIT_AS,
}
_LIBC = "libc"


def read_machine(
    environ: Mapping[str, str], root: Path = Path("/"), *, gpu_limit_s: float
) -> Identity:
    """What this machine gives to a job. The name of the host is noted only.

    The driver has `gpu_limit_s` seconds to answer. Raises nothing: what cannot be read is unknown.
    """
    return (
        _hardware(environ, root / "proc", gpu_limit_s)
        .also(cuda_toolkit(environ, root))
        .also(control_group(root))
        .also(container_image(environ, root))
        .also(_system(environ, root))
        .also(_limits())
    )


def _hardware(environ: Mapping[str, str], proc: Path, limit_s: float) -> Identity:
    try:
        # A driver that hangs does not come back, and no signal ends it.
        facts = bounded(lambda: hardware(environ, proc), limit_s)
    except TimedOut:
        reason = f"the NVIDIA driver did not answer within {limit_s:g} s"
        return Identity.of({}, {"gpu": reason, "driver": reason})
    libc = {} if _LIBC in facts.noted else {_LIBC: "it is not the GNU C library"}
    # Kernel and libc decide no bits, but they may explain a failure.
    compared = {**facts.facts, **facts.noted}
    return gpu_facts(Identity.of(compared, {**facts.unknown, **libc}), proc)


def _system(environ: Mapping[str, str], root: Path) -> Identity:
    facts: dict[str, str] = {"locale": _locale(environ)}
    unknown: dict[str, str] = {}
    readings: dict[str, Callable[[], str]] = {
        "memory": lambda: _memory(root / "proc" / "meminfo"),
        "os": lambda: _release(root / "etc" / "os-release"),
        "umask": lambda: _field(root / "proc" / "self" / "status", "Umask"),
        "shared-memory": lambda: _size_of(root / "dev" / "shm"),
    }
    for name, read in readings.items():
        try:
            facts[name] = read()
        except OSError as error:
            unknown[name] = f"{error.filename}: {error.strerror}"
        except ValueError as error:
            unknown[name] = str(error)
    return Identity.of(facts, unknown, {"host": os.uname().nodename})


def _locale(environ: Mapping[str, str]) -> str:
    """The locale of characters, by the precedence of setlocale(3)."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if environ.get(name):
            return environ[name]
    return "C"


def _memory(path: Path) -> str:
    kibibytes = _field(path, "MemTotal").removesuffix("kB")
    return size(int(kibibytes) * 1024)


def _size_of(path: Path) -> str:
    usage = os.statvfs(path)
    return size(usage.f_blocks * usage.f_frsize)


def _release(path: Path) -> str:
    """Such as `Debian GNU/Linux 12 (bookworm)` (os-release(5))."""
    for line in path.read_text(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip("\"'")
    raise ValueError(f"{path} does not name it")


def _field(path: Path, name: str) -> str:
    """A line `NAME: value`. Raises ValueError without one, and OSError."""
    for line in path.read_text(errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    raise ValueError(f"{path} has no {name}")


def _limits() -> Identity:
    """The soft limits, which a process meets first (getrlimit(2))."""
    facts = {}
    for name, number in _LIMITS.items():
        soft, _ = resource.getrlimit(number)
        facts[name] = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    return Identity.of(facts)
