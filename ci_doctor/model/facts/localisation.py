# SPDX-License-Identifier: Apache-2.0
"""The facts of a difference that was localised. Pure."""

from msgspec import Struct


class ReducedConditionFacts(Struct, frozen=True, kw_only=True):
    """One condition under which the arms were compared, and its `result`.

    That is `differs`, `equal` or `not tried` (`why` has the reason). `request` is the id of the only
    request that is compared, None for all of them; `before` are those that came before it, `beside`
    those at once with it. `prefix` is the length to which its prompt was cut, `without` a key that
    its body lacks. The answers of the last of the `passes` are compared. `fresh`: the start got nothing else before; other results are
    no more than a hint. `pairs`
    counts the starts of each arm; 0 are those of the experiment.
    """

    condition: str
    result: str
    request: str | None = None
    before: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    prefix: int | None = None
    without: str | None = None
    concurrency: int = 1
    passes: int = 1
    fresh: bool = True
    differing: tuple[str, ...] = ()
    compared: int = 0
    pairs: int = 0
    why: str | None = None


class LocalisationStart(Struct, frozen=True, kw_only=True):
    """A start that was made to localise a difference (`A5`), with its duration in seconds."""

    start: str
    duration_s: float
    log: str | None = None
    failure: str | None = None
    cut_short: bool = False


class LocalisationFacts(Struct, frozen=True, kw_only=True):
    """Where the arms differ: the `smallest` condition in words, and the `command` that makes it.

    In the experiment `differing_pairs` of the `pairs` of starts, one of each arm, differ on
    `request`. `confirmed`: it was met by a start of the search. `stopped` says why the
    search ended early.
    """

    request: str
    pairs: int
    differing_pairs: int
    conditions: tuple[ReducedConditionFacts, ...] = ()
    smallest: str | None = None
    confirmed: bool = False
    command: str | None = None
    starts: tuple[LocalisationStart, ...] = ()
    stopped: str | None = None
    notes: tuple[str, ...] = ()
