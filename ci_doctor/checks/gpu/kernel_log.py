# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: reads the kernel's log by /dev/kmsg, or by `dmesg` if that is hidden."""

import os
import shutil
from pathlib import Path

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.xid_lines import DriverLine, driver_lines
from ci_doctor.checks.result import UndeterminedError

# The kernel's buffer has rarely more than a few MiB; a record has at most 8 KiB.
_LIMIT = 32 << 20
_RECORD = 16 << 10


def read_kernel_log(context: CheckContext) -> tuple[DriverLine, ...]:
    """The NVIDIA driver's lines that the kernel's buffer still has, the oldest first.

    Raises UndeterminedError with the reason if nothing lets this user read it.
    """
    uptime_s = _uptime_s(context.proc)
    try:
        text = _records(context.dev / "kmsg")
    except OSError as error:
        text = _dmesg(context, f"{context.dev}/kmsg: {error.strerror}")
    return tuple(driver_lines(text, uptime_s))


def _records(path: Path) -> str:
    """Every record there is. One read gives one record; without a further one it would wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    chunks = []
    size = 0
    try:
        while size < _LIMIT:
            try:
                chunk = os.read(descriptor, _RECORD)
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


def _dmesg(context: CheckContext, reason: str) -> str:
    if shutil.which("dmesg", path=context.environ.get("PATH", "")) is None:
        raise UndeterminedError(f"the kernel's log cannot be read ({reason}; no `dmesg` on PATH)")
    ran = context.run(("dmesg",))
    if ran.exit_code != 0:
        words = ran.last_words
        raise UndeterminedError(f"the kernel's log cannot be read ({reason}; {words})")
    return ran.stdout


def _uptime_s(proc: Path) -> float | None:
    try:
        return float((proc / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
