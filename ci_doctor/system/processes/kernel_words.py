# SPDX-License-Identifier: Apache-2.0
"""Reads cgroups and the kernel's log: what the kernel says of a process that a signal ended."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from ci_doctor.system.processes.memory_events import MemoryEvents, oom_cause

KMSG: Final = Path("/dev/kmsg")
# What the kernel writes of a kill for lack of memory, and of a fault that no program has caught.
_KILL: Final = re.compile(r"[Oo]ut of memory: Kill(?:ed)? process \d+")
_FAULT: Final = re.compile(r"\b\S+\[\d+\]: segfault at |traps: \S+\[\d+\] |: segfault \(\d+\)")
# A record of /dev/kmsg: `priority,number,µs since boot,flags;text`; a line of dmesg: `[s] text`.
_RECORD: Final = re.compile(r"^(?:\d+,\d+,(?P<us>\d+),[^;]*;|\[ *(?P<s>\d+\.\d+)\] )(?P<text>.*)$")
# The kernel's clock for its log and the monotonic one drift apart.
_TOLERANCE_S: Final = 2.0
# Its buffer has rarely more than a few MiB; a record has at most 8 KiB.
_MOST_BYTES: Final = 32 << 20
_RECORD_BYTES: Final = 16 << 10
_PATIENCE_S: Final = 5.0
_MOST_LINES: Final = 2
_COMMANDS: Final = (
    ("dmesg",),
    ("journalctl", "--dmesg", "--boot", "--output=short-monotonic", "--no-pager", "--quiet"),
)


class KernelBefore(Struct, frozen=True, kw_only=True):
    """What the kernel had counted before a command began, at `began_s` of the monotonic clock."""

    memory: MemoryEvents
    began_s: float

    @classmethod
    def read(cls) -> Self:
        """Read it now."""
        return cls(memory=MemoryEvents.read(), began_s=time.clock_gettime(time.CLOCK_MONOTONIC))

    def since(self) -> tuple[str, ...]:
        """Sentences on what the kernel has said since then, or that it has said nothing.

        Of kills for lack of memory by its counters and by its log, of faults by its log.
        """
        log = kernel_log()
        sentences = [counted(self.memory, MemoryEvents.read())]
        if log is None:
            sentences.append("the kernel's log cannot be read here")
            return tuple(sentences)
        lines = list(lines_since(log, self.began_s - _TOLERANCE_S))
        sentences += [f"the kernel's log: {line}" for line in lines[:_MOST_LINES]]
        if not lines:
            sentences.append(
                "the kernel's log has no kill for lack of memory and no fault since then"
            )
        return tuple(sentences)


def counted(before: MemoryEvents, after: MemoryEvents) -> str:
    """What the counters of our cgroup say, from two readings."""
    cause = oom_cause(before, after)
    if cause is not None:
        return f"the kernel killed a process here for lack of memory: that of {cause.describe()}"
    if after.levels and len(before.levels) == len(after.levels):
        return (
            "the kernel has killed nothing in this cgroup for lack of memory (its counter oom_kill)"
        )
    if after.unlimited and after.host_kills is not None:
        return "the kernel has killed nothing for lack of memory (oom_kill in /proc/vmstat)"
    return "the kernel does not show here whether it killed for lack of memory"


def kernel_log() -> str | None:
    """The kernel's log by /dev/kmsg, else by `dmesg` or the journal; None if none may be read."""
    try:
        return records(KMSG)
    except OSError:
        pass
    for command in _COMMANDS:
        try:
            ran = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        # Without the right to read it, `journalctl` prints nothing and ends with 0.
        if ran.returncode == 0 and ran.stdout.strip():
            return ran.stdout.decode(errors="replace")
    return None


def records(path: Path) -> str:
    """Every record of /dev/kmsg. One read gives one; without a further one it would wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    chunks = []
    size = 0
    try:
        while size < _MOST_BYTES:
            try:
                chunk = os.read(descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # overwritten meanwhile; the next read goes on behind it
                continue
            if not chunk:
                break
            chunks.append(chunk)
            size += len(chunk)
    finally:
        os.close(descriptor)
    return b"".join(chunks).decode(errors="replace")


def lines_since(log: str, since_s: float) -> Iterator[str]:
    """The lines of `log` about a kill for lack of memory or a fault, not older than `since_s`.

    A line without a time is left out: it may be of any process.
    """
    for line in log.splitlines():
        if _KILL.search(line) is None and _FAULT.search(line) is None:
            continue
        record = _RECORD.match(line)
        if record is None:
            continue
        at_s = int(record["us"]) / 1e6 if record["us"] else float(record["s"])
        if at_s >= since_s:
            yield record["text"].strip()
