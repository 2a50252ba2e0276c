# SPDX-License-Identifier: Apache-2.0
"""Reads what the kernel knows of its clock: adjtimex(2), which changes nothing this way."""

import os

from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError

# linux/timex.h
_STA_UNSYNC = 0x0040
_MICROSECONDS = 1e6
# Of struct timex: modes, offset, freq, maxerror, esterror, status. The kernel fills 208 bytes on
# 64 bits; there is room for more.
_SIZE = 512


class ClockState(Struct, frozen=True, kw_only=True):
    """Whether a program keeps the clock right, and what it says the clock is off by at most."""

    is_synchronised: bool
    estimated_error_s: float


def read_clock_state() -> ClockState:
    """The state now. Raises UndeterminedError if this system does not answer."""
    import ctypes
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_SIZE)  # zeros: `modes` 0 reads only
    if not hasattr(libc, "adjtimex") or libc.adjtimex(buffer) < 0:
        reason = os.strerror(ctypes.get_errno())
        raise UndeterminedError(
            f"the kernel does not say whether its clock is synchronised: {reason}"
        )
    _, _, _, _, error, status = struct.unpack_from("@Illlli", buffer.raw)
    return ClockState(
        is_synchronised=not status & _STA_UNSYNC,
        estimated_error_s=error / _MICROSECONDS,
    )
