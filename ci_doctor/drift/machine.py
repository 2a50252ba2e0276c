# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: hardware, driver, limits and system, as facts. Nothing is started."""

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ci_doctor.identity.identity import Identity
from ci_doctor.identity.read import hardware
from ci_doctor.machine.gpus import read_toolkit, video_bios_versions
from ci_doctor.machine.host import (
    UnknownCgroupError,
    chosen_word,
    effective_locale,
    fields_of,
    kernel_parameter_file,
    memory_levels,
    numbers_of,
    read_cgroups,
    resource_limits,
    smallest_quota,
)
from ci_doctor.render.formatting import number, size
from ci_doctor.system.processes.limited_runs import TimedOut, bounded

_LIMITS: Final = {
    "ulimit.core": "core",
    "ulimit.locked-memory": "memlock",
    "ulimit.open-files": "nofile",
    "ulimit.processes": "nproc",
    "ulimit.stack": "stack",
    "ulimit.virtual-memory": "as",
}
_LIBC: Final = "libc"
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
_OF_ONE: Final = re.compile(r"gpu\d+\.(?P<key>\w+)")
_HUGE_PAGES = ("enabled", "defrag", "shmem_enabled")


def read_machine(
    environ: Mapping[str, str], root: Path = Path("/"), *, gpu_limit_s: float
) -> Identity:
    """What this machine gives to a job. The name of the host is noted only.

    The driver has `gpu_limit_s` seconds to answer. Raises nothing: what cannot be read is unknown.
    """
    return (
        _hardware(environ, root / "proc", gpu_limit_s)
        .also(_toolkit(environ, root))
        .also(_control_group(root))
        .also(_system(environ, root))
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


def gpu_facts(machine: Identity, proc: Path) -> Identity:
    """`machine` with one fact for all GPUs: `gpu.name` is `8 x NVIDIA H200`.

    A machine has up to sixteen GPUs, and most changes apply to all of them. The driver writes question
    marks for the version of a video BIOS that it does not know.
    """
    facts: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for name, value in machine.facts.items():
        match = _OF_ONE.fullmatch(name)
        if match is None:
            facts[name] = value
        else:
            values.setdefault(f"gpu.{match['key']}", []).append(value)
    unknown = {}
    for name, reason in machine.unknown.items():
        match = _OF_ONE.fullmatch(name)
        unknown[name if match is None else f"gpu.{match['key']}"] = reason
    firmware = video_bios_versions(proc)
    if firmware:
        values["gpu.vbios"] = list(firmware)
    for name, texts in values.items():
        counts = Counter(texts).items()
        facts[name] = ", ".join(text if n == 1 else f"{n} x {text}" for text, n in counts)
    return Identity.of(facts, unknown, machine.noted)


def _toolkit(environ: Mapping[str, str], root: Path) -> Identity:
    """`cuda.toolkit`, the version that a build would use."""
    toolkit = read_toolkit(environ, root=root)
    if toolkit is not None and toolkit.version is None:
        reason = f"{toolkit.home} holds no file that names its version"
        return Identity.of({}, {"cuda.toolkit": reason})
    return Identity.of({"cuda.toolkit": (toolkit.version if toolkit else None) or "none"})


def _control_group(root: Path) -> Identity:
    """`limit.memory` and `limit.cpu`: the lowest of the cgroup and of those above it.

    `none` without a limit. A container does not see the limits above its own.
    """
    facts: dict[str, str] = {}
    unknown: dict[str, str] = {}
    try:
        levels = memory_levels(read_cgroups("memory", root))
        lowest = min((each.limit for each in levels if each.limit is not None), default=None)
        facts["limit.memory"] = "none" if lowest is None else size(lowest)
    except UnknownCgroupError as error:
        unknown["limit.memory"] = str(error)
    try:
        quota = smallest_quota(read_cgroups("cpu", root))
        facts["limit.cpu"] = "none" if quota is None else f"{number(quota.cpus)} CPUs"
    except UnknownCgroupError as error:
        unknown["limit.cpu"] = str(error)
    return Identity.of(facts, unknown)


def _system(environ: Mapping[str, str], root: Path) -> Identity:
    """Locale, soft limits (which a process meets first), memory, release, umask, shared memory."""
    limits = resource_limits()
    facts = {name: limits[limit].shown() for name, limit in _LIMITS.items()}
    facts["locale"] = effective_locale(environ) or "C"
    unknown: dict[str, str] = {}
    readings: dict[str, Callable[[], str]] = {
        "memory": lambda: size(numbers_of(root / "proc" / "meminfo")["MemTotal"] * 1024),
        "os": lambda: fields_of(root / "etc" / "os-release", "=")["PRETTY_NAME"],
        "umask": lambda: fields_of(root / "proc" / "self" / "status", ":")["Umask"],
        "shared-memory": lambda: _size_of(root / "dev" / "shm"),
    }
    for name, read in readings.items():
        try:
            facts[name] = read()
        except OSError as error:
            unknown[name] = f"{error.filename}: {error.strerror}"
        except KeyError as error:
            unknown[name] = f"its file has no {error.args[0]}, or cannot be read"
    return Identity.of(facts, unknown, {"host": os.uname().nodename})


def _size_of(path: Path) -> str:
    usage = os.statvfs(path)
    return size(usage.f_blocks * usage.f_frsize)


def _kernel(root: Path) -> Identity:
    """The parameters of the running kernel, as /proc/sys and /sys show them.

    A kernel without a parameter has no file for it, which is a value too.
    """
    facts: dict[str, str] = {}
    unknown: dict[str, str] = {}
    files = {f"sysctl.{name}": kernel_parameter_file(name, root) for name in KERNEL_PARAMETERS}
    for name in _HUGE_PAGES:
        path = root / "sys" / "kernel" / "mm" / "transparent_hugepage" / name
        files[f"sysctl.transparent-hugepage.{name}"] = path
    is_there = (root / "proc" / "sys").is_dir()
    for name, path in files.items():
        try:
            facts[name] = chosen_word(path.read_text(errors="replace"))
        except FileNotFoundError:
            if is_there:
                facts[name] = "absent"
            else:
                unknown[name] = f"{root / 'proc' / 'sys'} is missing"
        except OSError as error:
            unknown[name] = f"{path}: {error.strerror}"
    return Identity.of(facts, unknown)
