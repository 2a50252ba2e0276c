# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a restored cache has paid, and how long compiling took."""

from collections.abc import Iterable
from enum import StrEnum
from itertools import pairwise

from msgspec import Struct

from ci_doctor.store.manifest import ColdCost

# --- whether a restored cache has paid: what was compiled all the same, and how long it took ---
# Hit counters are no evidence: TorchInductor counts a hit and runs the compiler for each kernel. Files
# that a compiler wrote after the restore are, and so is a tree of which nobody has read a file.


class RestoreEffect(StrEnum):
    """What a restored cache was worth; `unproven` if nothing shows that it was used."""

    PAID = "paid"
    PARTLY = "partly"
    INERT = "inert"
    UNPROVEN = "unproven"


# Shares of what the cold job compiled. The first covers a probe of a compiler at each start.
_PAID_SHARE = 0.1
_INERT_SHARE = 0.5
# Without seconds of a log: 8 of torch's 18 files again took longer than all of them
# (benchmarks/RESULTS.md, 2026-11-23), because the times of files leave out the first compile.
_INERT_SHARE_UNTIMED = 1 / 3
# Shares of the seconds that the cold job compiled.
_PAID_TIME = 0.25
_INERT_TIME = 0.75


class Use(Struct, frozen=True, kw_only=True):
    """What a job did with a restored tree.

    restored: its compiled files. compiled: those written after the restore, there or in the directory
    that the library chose instead. warm: what compiling them cost, None if nothing was compiled. read:
    restored compiled files that this job read; None if nobody knows. installed: the share of the saved
    files that the restore put there, 0 if all of them were there before. chosen: another directory that
    the library used. used: the log shows that the restored directory was used. touched: compiled files
    that were written after the restore with the content that was restored. is_disabled: the log
    says that the library uses no cache. is_same_cpu: the cold cost is of a CPU as this one.
    """

    restored: int
    compiled: int
    warm: ColdCost | None
    read: int | None
    installed: float = 1.0
    chosen: str | None = None
    used: bool = False
    touched: int = 0
    is_disabled: bool = False
    is_same_cpu: bool = False

    @property
    def share(self) -> float:
        """The part of the cold cost, from 0 to 1, that can be saved at most: what was restored and read."""
        if self.read is None or self.used or not self.restored:
            return self.installed
        return min(self.installed, self.read / self.restored)


class FamilyEffect(Struct, frozen=True, kw_only=True):
    """The effect and its reason. saved_s and saved_gpu_s are None if they were not measured.

    Both are differences of two times of the same source, and never negative. They are no more than the
    share of the cold time that stands for the files that were restored and read.
    """

    effect: RestoreEffect
    reason: str
    saved_s: float | None = None
    saved_gpu_s: float | None = None


def judge(use: Use, cold: ColdCost | None) -> FamilyEffect:  # noqa: PLR0911 - a reason each
    """The effect of a restored cache, given what it cost to make it; None if nobody knows that."""
    if use.chosen is not None:
        return FamilyEffect(
            effect=RestoreEffect.INERT,
            reason=f"restored, but the library chose another directory: {use.chosen}",
        )
    if use.is_disabled:
        reason = "the log says that the library's cache was disabled"
        return FamilyEffect(effect=RestoreEffect.INERT, reason=reason)
    if use.installed == 0:
        reason = "all of it was in the directory before the restore"
        return FamilyEffect(effect=RestoreEffect.UNPROVEN, reason=reason)
    before = cold.compiled if cold is not None else use.restored
    compiled = (
        f"{use.compiled} compiled again, of {before}" if use.compiled else "nothing was compiled"
    )
    if use.read == 0 and not use.used:
        reason = f"{compiled}, and not one restored file was read"
        return FamilyEffect(effect=RestoreEffect.INERT, reason=reason)
    effect = _by_compiling(use, before, cold)
    if effect is RestoreEffect.INERT:
        return FamilyEffect(effect=effect, reason=compiled)
    if use.touched and not use.used:
        reason = f"{compiled}; {use.touched} have a new time and the restored content, by a hit or by a compile"
        return FamilyEffect(effect=RestoreEffect.UNPROVEN, reason=reason)
    if use.read is None and not use.used:
        reason = f"{compiled}, and nothing shows that this job read the cache"
        return FamilyEffect(effect=RestoreEffect.UNPROVEN, reason=reason)
    return _with_saving(effect, compiled if use.compiled else f"{compiled} again", use, cold)


def _by_compiling(use: Use, before: int, cold: ColdCost | None) -> RestoreEffect:
    if not use.compiled:
        return RestoreEffect.PAID
    share = use.compiled / before if before else 1.0
    inert = (
        _INERT_SHARE if use.warm is not None and use.warm.source == LOG else _INERT_SHARE_UNTIMED
    )
    one = _by_share(share, _PAID_SHARE, inert)
    other = _by_time(use.warm, cold)
    order = (RestoreEffect.PAID, RestoreEffect.PARTLY, RestoreEffect.INERT)
    return max(one, other, key=order.index)


def _with_saving(
    effect: RestoreEffect, reason: str, use: Use, cold: ColdCost | None
) -> FamilyEffect:
    """With the seconds saved, if both times come from the same source.

    Of what was partly compiled again, the times of files say too little; of a single file, nothing.
    """
    warm = use.warm
    # Seconds of another CPU are none of this job.
    if not use.is_same_cpu or cold is None or not cold.seconds:
        return FamilyEffect(effect=effect, reason=reason)
    if warm is not None and warm.source != cold.source:
        return FamilyEffect(effect=effect, reason=reason)
    if effect is RestoreEffect.PARTLY and cold.source != LOG:
        return FamilyEffect(effect=effect, reason=reason)
    spent = warm.seconds if warm is not None else 0.0
    saved = max(0.0, min(cold.seconds - spent, cold.seconds * use.share))
    gpu = saved * cold.gpus if cold.gpus else None
    return FamilyEffect(effect=effect, reason=reason, saved_s=saved, saved_gpu_s=gpu)


def _by_time(warm: ColdCost | None, cold: ColdCost | None) -> RestoreEffect:
    if warm is None or cold is None or warm.source != cold.source or cold.seconds <= 0:
        return RestoreEffect.PAID  # it says nothing, and the count decides
    return _by_share(warm.seconds / cold.seconds, _PAID_TIME, _INERT_TIME)


def _by_share(share: float, paid: float, inert: float) -> RestoreEffect:
    if share <= paid:
        return RestoreEffect.PAID
    return RestoreEffect.PARTLY if share < inert else RestoreEffect.INERT


# --- how long compiling took: what a log says, else the times of the files that it made ---
# A log's own figure counts all of a compile. The times of files count from the end of the first compile
# to the end of the last one, without pauses: it is less than what the job has waited.

# Between two files of one phase of compiling. A larger kernel takes longer, and then counts as a pause.
_PAUSE_S = 30.0
LOG = "log"
FILE_TIMES = "file times"


def span_s(times_ns: Iterable[int]) -> float:
    """Seconds between files that were written within half a minute of each other, summed."""
    ordered = sorted(times_ns)
    total = 0.0
    for earlier, later in pairwise(ordered):
        gap = (later - earlier) / 1e9
        if gap <= _PAUSE_S:
            total += gap
    return total


def cost_of(times_ns: Iterable[int], log_seconds: Iterable[float], gpus: int) -> ColdCost | None:
    """The cost of compiling files of these times (ns since the epoch); None if nothing was compiled.

    log_seconds: the seconds that a log names for its compiles; without any, the times decide.
    """
    times = list(times_ns)
    logged = list(log_seconds)
    if not times:
        return None
    if logged:
        return ColdCost(seconds=sum(logged), compiled=len(times), gpus=gpus, source=LOG)
    return ColdCost(seconds=span_s(times), compiled=len(times), gpus=gpus, source=FILE_TIMES)
