# SPDX-License-Identifier: Apache-2.0
"""The facts of a difference that was localised. Pure."""

from msgspec import Struct


class LocalisationTrial(Struct, frozen=True, kw_only=True):
    """What one pair of fresh starts was sent, and its `result`.

    That is `differs`, `equal` or `not tried` (`why` has the reason). `sent` holds the names of the
    requests, group after group, `at_once` of a group under way together; `pause_s` is the time
    without a request before the last group. `differing` are the places, from 1, of those to which the
    candidate answered otherwise, of the `compared` ones.
    """

    condition: str
    result: str
    sent: tuple[tuple[str, ...], ...] = ()
    at_once: int = 1
    pause_s: float = 0.0
    differing: tuple[int, ...] = ()
    compared: int = 0
    why: str | None = None


class LocalisationStart(Struct, frozen=True, kw_only=True):
    """A start that was made to localise a difference (`A5`), with its duration in seconds."""

    start: str
    duration_s: float
    log: str | None = None
    failure: str | None = None
    cut_short: bool = False


class LocalisationFacts(Struct, frozen=True, kw_only=True):
    """Where the arms differ: the `cause` that fits all `conditions`, and the `rivals` that fit as well.

    In the experiment `differing_pairs` of the `pairs` of starts, one of each arm, differ on
    `request`. `smallest` is the smallest condition that differed again, `command` makes it, and in
    those of `without` the difference was gone. `stopped` says why the search ended early.
    """

    request: str
    pairs: int
    differing_pairs: int
    cause: str | None = None
    rivals: tuple[str, ...] = ()
    conditions: tuple[LocalisationTrial, ...] = ()
    smallest: str | None = None
    without: tuple[str, ...] = ()
    command: str | None = None
    starts: tuple[LocalisationStart, ...] = ()
    stopped: str | None = None
    notes: tuple[str, ...] = ()
