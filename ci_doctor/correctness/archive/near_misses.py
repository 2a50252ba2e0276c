# SPDX-License-Identifier: Apache-2.0
"""Why no archived baseline matches, in words. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.identity.identity import ABSENT, Difference
from ci_doctor.model.shortened import shortened
from ci_doctor.render.formatting import amount

_MOST_DIFFERENCES = 5
_WIDTH = 60
# In this order: what a person can change least comes first.
_FIRST = (
    "gpu",
    "driver",
    "cpu",
    "cuda",
    "nvidia",
    "torch",
    "triton",
    "vllm",
    "sglang",
    "model",
    "requests",
    "schedule",
)


class NearMiss(Struct, frozen=True, kw_only=True):
    """Archived starts under another identity: how many, and when the newest was made.

    `age_s` is the age of that one in seconds. `differences` lead from their identity (left) to the
    requested one (right).
    """

    differences: tuple[Difference, ...]
    starts: int
    recorded_at: str
    age_s: float


def explain_near_miss(near: Sequence[NearMiss]) -> tuple[str, ...]:
    """One line for each, nearest first.

    `closest archived baseline (3 starts, 2 days old) differs in: driver 550 -> 560`.
    """
    lines = []
    rank = "closest"
    for miss in near:
        starts = amount(miss.starts, "start")
        age = _age(miss.age_s)
        facts = _listed(miss.differences)
        lines.append(f"{rank} archived baseline ({starts}, {age} old) differs in: {facts}")
        rank = "another"
    return tuple(lines)


def _listed(differences: Sequence[Difference]) -> str:
    ordered = sorted(differences, key=_order)
    words = [_in_words(each) for each in ordered]
    shown = "; ".join(words[:_MOST_DIFFERENCES])
    more = len(words) - _MOST_DIFFERENCES
    if more > 0:
        return f"{shown}; and {more} more"
    return shown


def _order(difference: Difference) -> tuple[int, str]:
    fact = difference.fact
    return _rank(fact), fact


def _rank(fact: str) -> int:
    """The place of a fact in the list; the name of a service before it does not count."""
    plain = _plain(fact)
    for index, name in enumerate(_FIRST):
        if plain.startswith(name):
            return index
    return len(_FIRST)


def _plain(fact: str) -> str:
    return fact.rpartition(": ")[2]


def _in_words(each: Difference) -> str:
    fact = each.fact
    left = each.left or ABSENT
    right = each.right or ABSENT
    if _plain(fact) == "argv" and each.left and each.right:
        return _changed_arguments(fact, left.split(), right.split())
    return f"{fact} {shortened(left, _WIDTH)} -> {shortened(right, _WIDTH)}"


def _changed_arguments(fact: str, left: Sequence[str], right: Sequence[str]) -> str:
    """`argv now without `--a` and with `--b``: two whole command lines are too long to read."""
    # By word and not by position: one more option would shift all that follow it.
    removed = [word for word in left if word not in right]
    added = [word for word in right if word not in left]
    parts = []
    if removed:
        words = shortened(" ".join(removed), _WIDTH)
        parts.append(f"without `{words}`")
    if added:
        words = shortened(" ".join(added), _WIDTH)
        parts.append(f"with `{words}`")
    # The same words: nothing but their order can differ.
    if not parts:
        return f"the order of {fact}"
    return f"{fact} now {' and '.join(parts)}"


def _age(seconds: float) -> str:
    for name, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count = int(seconds // size)
        if count > 0:
            return amount(count, name)
    return "less than a minute"
