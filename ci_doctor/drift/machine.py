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
# Kernel parameters (sysctl) that decide whether a server starts, connects, or how its memory is kept:
# Linux Documentation/admin-guide/sysctl/{kernel,vm,fs,net}.rst and networking/ip-sysctl.rst. A
# network namespace has those of `net` for itself.
KERNEL_PARAMETERS = (
    "vm.max_map_count",
    "vm.overcommit_memory",
    "vm.overcommit_ratio",
    "vm.swappiness",
    "vm.zone_reclaim_mode",
    "vm.nr_hugepages",
    "vm.panic_on_oom",
    "vm.oom_kill_allocating_task",
    "kernel.pid_max",
    "kernel.threads-max",
    "kernel.numa_balancing",
    "kernel.randomize_va_space",
    "kernel.yama.ptrace_scope",
    "kernel.perf_event_paranoid",
    "kernel.unprivileged_userns_clone",
    "kernel.shmmax",
    "kernel.shmall",
    "kernel.shmmni",
    "kernel.sem",
    "kernel.sched_rt_runtime_us",
    "kernel.sched_autogroup_enabled",
    "fs.file-max",
    "fs.nr_open",
    "fs.aio-max-nr",
    "fs.pipe-max-size",
    "fs.inotify.max_user_instances",
    "fs.inotify.max_user_watches",
    "user.max_user_namespaces",
    "net.core.somaxconn",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_congestion_control",
    "net.ipv6.conf.all.disable_ipv6",
    "net.ipv6.conf.lo.disable_ipv6",
    "net.ipv6.bindv6only",
)
_HUGE_PAGES = ("enabled", "defrag", "shmem_enabled")


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
        .also(_kernel(root))
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


def _kernel(root: Path) -> Identity:
    """The parameters of the running kernel, as /proc/sys and /sys show them.

    A kernel without a parameter has no file for it, which is a value too.
    """
    facts: dict[str, str] = {}
    unknown: dict[str, str] = {}
    files = {
        f"sysctl.{name}": root.joinpath("proc", "sys", *name.split("."))
        for name in KERNEL_PARAMETERS
    }
    for name in _HUGE_PAGES:
        place = root / "sys" / "kernel" / "mm" / "transparent_hugepage" / name
        files[f"sysctl.transparent-hugepage.{name}"] = place
    is_there = (root / "proc" / "sys").is_dir()
    for name, path in files.items():
        try:
            facts[name] = _chosen(path.read_text(errors="replace"))
        except FileNotFoundError:
            if is_there:
                facts[name] = "absent"
            else:
                unknown[name] = f"{root / 'proc' / 'sys'} is missing"
        except OSError as error:
            unknown[name] = f"{path}: {error.strerror}"
    return Identity.of(facts, unknown)


def _chosen(text: str) -> str:
    """The value; of a list of words the one in brackets."""
    words = text.split()
    for word in words:
        if word.startswith("[") and word.endswith("]"):
            return word[1:-1]
    return " ".join(words)


def _limits() -> Identity:
    """The soft limits, which a process meets first (getrlimit(2))."""
    facts = {}
    for name, number in _LIMITS.items():
        soft, _ = resource.getrlimit(number)
        facts[name] = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    return Identity.of(facts)
