# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a restored cache has paid: what was compiled all the same, and how long it took.

Hit counters are no evidence: TorchInductor counts a hit and runs the compiler for each kernel. Files
that a compiler wrote after the restore are, and so is a tree of which nobody has read a file.
"""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.store.manifest import ColdCost


class RestoreEffect(StrEnum):
    """What a restored cache was worth; `unproven` if nothing shows that it was used."""

    PAID = "paid"
    PARTLY = "partly"
    INERT = "inert"
    UNPROVEN = "unproven"


# Shares of what the cold job compiled. The first covers a probe of a compiler at each start.
_PAID_SHARE = 0.1
_INERT_SHARE = 0.5
# Shares of the seconds that the cold job compiled.
_PAID_TIME = 0.25
_INERT_TIME = 0.75


class Use(Struct, frozen=True, kw_only=True):
    """What a job did with a restored tree.

    restored: its compiled files. compiled: those written after the restore, there or in the directory
    that the library chose instead. warm: what compiling them cost, None if nothing was compiled. read:
    restored files that were read; None if the file system does not keep the times. chosen: another
    directory that the library used. used: the log shows that the restored directory was used.
    """

    restored: int
    compiled: int
    warm: ColdCost | None
    read: int | None
    chosen: str | None = None
    used: bool = False


class FamilyEffect(Struct, frozen=True, kw_only=True):
    """The effect and its reason. saved_s and saved_gpu_s are None if they were not measured.

    Both are differences of two times of the same source, and never negative.
    """

    effect: RestoreEffect
    reason: str
    saved_s: float | None = None
    saved_gpu_s: float | None = None


def judge(use: Use, cold: ColdCost | None) -> FamilyEffect:
    """The effect of a restored cache, given what it cost to make it; None if nobody knows that."""
    if use.chosen is not None:
        return FamilyEffect(
            effect=RestoreEffect.INERT, reason=f"the library used {use.chosen} instead"
        )
    if use.compiled == 0:
        return _nothing_compiled(use, cold)
    before = cold.compiled if cold is not None else use.restored
    share = use.compiled / before if before else 1.0
    effect = _worse(_by_share(share, _PAID_SHARE, _INERT_SHARE), _by_time(use.warm, cold))
    reason = f"{use.compiled} compiled again, of {before}"
    if effect is RestoreEffect.INERT or cold is None:
        return FamilyEffect(effect=effect, reason=reason)
    return _with_saving(effect, reason, use.warm, cold)


def _nothing_compiled(use: Use, cold: ColdCost | None) -> FamilyEffect:
    if use.read == 0 and not use.used:
        return FamilyEffect(effect=RestoreEffect.INERT, reason="not one restored file was read")
    if use.read is None and not use.used:
        reason = "nothing was compiled, and nothing shows that the cache was read"
        return FamilyEffect(effect=RestoreEffect.UNPROVEN, reason=reason)
    if cold is None:
        return FamilyEffect(effect=RestoreEffect.PAID, reason="nothing was compiled again")
    return _with_saving(RestoreEffect.PAID, "nothing was compiled again", None, cold)


def _with_saving(
    effect: RestoreEffect, reason: str, warm: ColdCost | None, cold: ColdCost
) -> FamilyEffect:
    """With the seconds saved, if both times come from the same source."""
    if warm is not None and warm.source != cold.source:
        return FamilyEffect(effect=effect, reason=reason)
    spent = warm.seconds if warm is not None else 0.0
    saved = max(0.0, cold.seconds - spent)
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


def _worse(one: RestoreEffect, other: RestoreEffect) -> RestoreEffect:
    order = (RestoreEffect.PAID, RestoreEffect.PARTLY, RestoreEffect.INERT)
    return max(one, other, key=order.index)
