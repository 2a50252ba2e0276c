# SPDX-License-Identifier: Apache-2.0
"""Says in words why no archived baseline matches. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.identity.identity import ABSENT, Difference

_TOLD = 5
_WIDTH = 60
# In this order: what a person can do least about comes last.
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
    """Archived starts under another identity: how many, when the newest was made, `age_s` seconds ago.

    `differences` lead from that identity (left) to the one that was asked for (right).
    """

    differences: tuple[Difference, ...]
    starts: int
    recorded_at: str
    age_s: float


def explain_near_miss(near: Sequence[NearMiss]) -> tuple[str, ...]:
    """A line each, nearest first: `closest archived baseline (3 starts, 2 days old) differs in: driver 550 -> 560`."""
    return tuple(
        f"{'closest' if index == 0 else 'another'} archived baseline ({_count(miss.starts)}, {_age(miss.age_s)} old) "
        f"differs in: {_listed(miss.differences)}"
        for index, miss in enumerate(near)
    )


def _listed(differences: Sequence[Difference]) -> str:
    ordered = sorted(differences, key=lambda each: (_rank(each.fact), each.fact))
    told = "; ".join(_in_words(each) for each in ordered[:_TOLD])
    more = len(ordered) - _TOLD
    return f"{told}; and {more} more" if more > 0 else told


def _rank(fact: str) -> int:
    plain = fact.rpartition(": ")[2]
    return next((index for index, name in enumerate(_FIRST) if plain.startswith(name)), len(_FIRST))


def _in_words(each: Difference) -> str:
    if each.fact.rpartition(": ")[2] == "argv" and each.left and each.right:
        left, right = each.left.split(), each.right.split()
        without, having = _missing(left, right), _missing(right, left)
        parts = [f"without `{_short(without)}`"] if without else []
        parts += [f"with `{_short(having)}`"] if having else []
        return f"{each.fact} now {' and '.join(parts)}" if parts else f"the order of {each.fact}"
    return f"{each.fact} {_short(each.left or ABSENT)} -> {_short(each.right or ABSENT)}"


def _missing(words: Sequence[str], others: Sequence[str]) -> str:
    return " ".join(word for word in words if word not in others)


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _count(starts: int) -> str:
    return "1 start" if starts == 1 else f"{starts} starts"


def _age(seconds: float) -> str:
    for name, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if (count := int(seconds // size)) >= 1:
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "less than a minute"
