# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether the memory of a killed process came back, from readings of the GPU's used memory.

The readings are of the whole GPU, so others may have taken or given memory meanwhile. The lists of
who holds memory tell whether they did.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, problem, unknown_result
from ci_doctor.checks.gpu_proof.rules import GPU_MEMORY_KEPT, GPU_MEMORY_LATE
from ci_doctor.render.formatting import duration, size

# What a driver may keep after the first use of a GPU.
_TOLERANCE: Final = 128 * 2**20
# With less it would not show whether it is still held.
_LEAST_HELD: Final = 4 * _TOLERANCE
# A server that is started right after another was killed begins to allocate after some seconds.
LATE_S: Final = 5.0

# Who holds memory, as nvidia-smi lists it: pid and amount, a line for each process.
Holders = frozenset[str]


class UsedMemory(Struct, frozen=True, kw_only=True):
    """`used` bytes at some moment between `asked_s` and `answered_s`, seconds after the kill."""

    asked_s: float
    answered_s: float
    used: int


class MemoryReadings(Struct, frozen=True, kw_only=True):
    """What was read before, during and after a process that held `held` bytes.

    The holders are None if the driver did not list them.
    """

    label: str
    used_before: int
    held: int
    after: tuple[UsedMemory, ...]
    holders_before: Holders | None
    holders_during: Holders | None
    holders_after: Holders | None

    @property
    def others_changed(self) -> bool | None:
        """Whether others came, went, or changed what they hold; None if that is not visible.

        It is visible only where our own process was in the list, or others were.
        """
        before, after = self.holders_before, self.holders_after
        if before is None or after is None:
            return None
        is_listing = bool(before) or bool(self.holders_during)
        if not is_listing:
            return None
        return before != after


def is_back(readings: MemoryReadings, reading: UsedMemory) -> bool:
    """Whether no more is used than before."""
    return reading.used <= readings.used_before + _TOLERANCE


def judge_memory_back(readings: MemoryReadings) -> CheckResult:
    """What the readings say."""
    if readings.held < _LEAST_HELD:
        return unknown_result(f"{readings.label}: only {size(readings.held)} were free to be taken")
    late = _first_back(readings)
    if late is None:
        return _not_back(readings)
    # Others that gave memory back could hide that ours is still held, if they had as much.
    could_hide = readings.used_before + _TOLERANCE >= readings.held
    if could_hide and readings.others_changed is not False:
        return _not_ours(
            readings, f"{readings.label}: others held as much before as the killed process"
        )
    return _back(readings, late)


def _first_back(readings: MemoryReadings) -> int | None:
    for place, reading in enumerate(readings.after):
        if is_back(readings, reading):
            return place
    return None


def _back(readings: MemoryReadings, place: int) -> CheckResult:
    latest_s = readings.after[place].answered_s
    earliest_s = 0.0
    if place > 0:
        earliest_s = readings.after[place - 1].asked_s
    summary = (
        f"{readings.label}: {size(readings.held)} of a killed process were free again "
        f"within {duration(latest_s)}"
    )
    figures = {"held_bytes": readings.held, "back_after_s": earliest_s, "back_within_s": latest_s}
    # By the earliest moment: that nvidia-smi answers slowly is no fault of the memory.
    if earliest_s <= LATE_S:
        return CheckResult(summary=summary, figures=figures)
    words = f"{summary}, and not within {duration(earliest_s)}"
    return CheckResult(summary=words, problems=(problem(GPU_MEMORY_LATE, words),), figures=figures)


def _not_back(readings: MemoryReadings) -> CheckResult:
    if not readings.after:
        return unknown_result(
            f"{readings.label}: nvidia-smi gave no answer after the process was killed"
        )
    last = readings.after[-1]
    more = last.used - readings.used_before
    summary = (
        f"{readings.label}: {size(more)} more are used than before, {duration(last.asked_s)} after "
        f"a process that held {size(readings.held)} was killed"
    )
    if readings.others_changed is not False:
        return _not_ours(readings, summary)
    figures = {"held_bytes": readings.held, "kept_bytes": more}
    return CheckResult(
        summary=summary, problems=(problem(GPU_MEMORY_KEPT, summary),), figures=figures
    )


def _not_ours(readings: MemoryReadings, reason: str) -> CheckResult:
    why = "other processes took or gave memory of this GPU meanwhile"
    if readings.others_changed is None:
        why = "the driver does not list who holds memory here, as in most containers"
    return unknown_result(f"{reason}, and {why}")


def holders_of(rows: Sequence[Mapping[str, str | None]], uuid: str | None) -> Holders:
    """The holders of the GPU `uuid` among the rows of nvidia-smi."""
    holders = set()
    for row in rows:
        if row["gpu_uuid"] == uuid:
            holders.add(f"{row['pid']} {row['used_memory']}")
    return frozenset(holders)
