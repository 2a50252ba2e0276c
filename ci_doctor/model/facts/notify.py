# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor report --notify`."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.model.facts import Facts


class NotifyState(StrEnum):
    """What became of a message.

    `edited`: the comment of an earlier one has new text. `unchanged`: it has this text already.
    `skipped`: there is nothing to send there, or nothing to send it with.
    """

    SENT = "sent"
    EDITED = "edited"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    FAILED = "failed"


class Notification(Struct, frozen=True, kw_only=True):
    """One message. to: `github`, `slack` or `webhook`. reason: why it is skipped, or has failed."""

    to: str
    state: NotifyState
    reason: str | None = None
    address: str | None = None


class NotifyFacts(Facts, frozen=True, kw_only=True):
    """The three lines, and what became of them at each service; both empty if nothing is known to send."""

    lines: tuple[str, ...] = ()
    notifications: tuple[Notification, ...] = ()
