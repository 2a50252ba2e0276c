# SPDX-License-Identifier: Apache-2.0
"""Why no archived baseline matches, in words. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.identity.identity import ABSENT, Difference

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
        count = "1 start" if miss.starts == 1 else f"{miss.starts} starts"
        baseline = f"{rank} archived baseline ({count}, {_age(miss.age_s)} old)"
        lines.append(f"{baseline} differs in: {_listed(miss.differences)}")
        rank = "another"
    return tuple(lines)


def _listed(differences: Sequence[Difference]) -> str:
    ordered = sorted(differences, key=lambda each: (_rank(each.fact), each.fact))
    shown = "; ".join(_in_words(each) for each in ordered[:_MOST_DIFFERENCES])
    more = len(ordered) - _MOST_DIFFERENCES
    return f"{shown}; and {more} more" if more > 0 else shown


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
    if _plain(each.fact) == "argv" and each.left and each.right:
        return _changed_arguments(each.fact, each.left.split(), each.right.split())
    return f"{each.fact} {_short(each.left or ABSENT)} -> {_short(each.right or ABSENT)}"


def _changed_arguments(fact: str, left: Sequence[str], right: Sequence[str]) -> str:
    """`argv now without `--a` and with `--b``: two whole command lines are too long to read."""
    # By word and not by position: one more option would shift all that follow it.
    removed = " ".join(word for word in left if word not in right)
    added = " ".join(word for word in right if word not in left)
    parts = []
    if removed:
        parts.append(f"without `{_short(removed)}`")
    if added:
        parts.append(f"with `{_short(added)}`")
    return f"{fact} now {' and '.join(parts)}" if parts else f"the order of {fact}"


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _age(seconds: float) -> str:
    for name, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count = int(seconds // size)
        if count == 1:
            return f"1 {name}"
        if count > 1:
            return f"{count} {name}s"
    return "less than a minute"
