# SPDX-License-Identifier: Apache-2.0
"""Identities: the sorted facts that decide whether what was made elsewhere may be used here. Pure."""

import hashlib
import json
from collections.abc import Mapping
from typing import Self

from msgspec import Struct, field

# What stands for a value in a text where one side has no such fact.
ABSENT = "absent"


class Difference(Struct, frozen=True, kw_only=True):
    """A fact in which two identities differ. `left` and `right` are None where that side has no such fact.

    `knowledge` says that one side does not know its value, so that the two may or may not be alike; the text of that
    side is then `unknown: ` and the reason.
    """

    fact: str
    left: str | None
    right: str | None
    knowledge: bool = False

    def describe(self) -> str:
        """`driver 550.54 -> 560.35`, `flash-attn absent -> 2.8.3`."""
        return f"{self.fact} {self.left or ABSENT} -> {self.right or ABSENT}"


class Identity(Struct, frozen=True, kw_only=True):
    """`facts` decide; `unknown` leads from a fact that should decide, and could not be read, to the reason.

    `noted` facts are recorded for people, and decide nothing. A value that is known is never empty: an empty one is
    written as it would be for a shell, `''`.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    noted: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        facts: Mapping[str, str],
        unknown: Mapping[str, str] | None = None,
        noted: Mapping[str, str] | None = None,
    ) -> Self:
        """An identity with its names sorted. A name that is also unknown is unknown: half a fact decides nothing."""
        unknown = unknown or {}
        return cls(
            facts=_sorted(
                {name: value or "''" for name, value in facts.items() if name not in unknown}
            ),
            unknown=_sorted(unknown),
            noted=_sorted({name: value for name, value in (noted or {}).items() if value}),
        )

    def also(self, other: "Identity") -> "Identity":
        """Both in one; of a name that both hold, `other`'s value."""
        return type(self).of(
            {**self.facts, **other.facts},
            {**self.unknown, **other.unknown},
            {**self.noted, **other.noted},
        )

    def digest(self) -> str:
        """SHA-256 in hex over the facts and the names of the unknown ones; neither reasons nor noted facts count."""
        content = json.dumps(
            [dict(sorted(self.facts.items())), sorted(self.unknown)], sort_keys=True
        )
        return hashlib.sha256(content.encode("ascii")).hexdigest()


def _sorted(facts: Mapping[str, str]) -> dict[str, str]:
    """By name, and as text that every file can hold: a path or a variable may have bytes that are no text."""
    return {_encodable(name): _encodable(facts[name]) for name in sorted(facts)}


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def differences(left: Identity, right: Identity) -> tuple[Difference, ...]:
    """Every fact in which two identities differ, by name; none exactly where their digests are the same.

    What is unknown to both is no difference; what only one of them knows is one of knowledge.
    """
    names = sorted({*left.facts, *left.unknown, *right.facts, *right.unknown})
    return tuple(found for name in names if (found := _difference(name, left, right)))


def _difference(name: str, left: Identity, right: Identity) -> Difference | None:
    if left.facts.get(name) == right.facts.get(name) and (name in left.unknown) == (
        name in right.unknown
    ):
        return None
    return Difference(
        fact=name,
        left=_told(name, left),
        right=_told(name, right),
        knowledge=name in left.unknown or name in right.unknown,
    )


def _told(name: str, identity: Identity) -> str | None:
    if name in identity.unknown:
        return f"unknown: {identity.unknown[name]}"
    return identity.facts.get(name)
