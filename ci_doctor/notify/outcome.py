# SPDX-License-Identifier: Apache-2.0
"""Pure. What became of messages -> findings, a table, and an outcome, which judges nothing."""

from collections.abc import Sequence

from ci_doctor.model.facts.notify import Notification, NotifyFacts, NotifyState
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row
from ci_doctor.notify.notice import Notice
from ci_doctor.notify.rules import NOT_SENT
from ci_doctor.render.formatting import amount

TITLE = "Messages"
_ARRIVED = frozenset({NotifyState.SENT, NotifyState.EDITED, NotifyState.UNCHANGED})


def failures(notifications: Sequence[Notification]) -> tuple[Finding, ...]:
    """A warning for each message that could not be sent."""
    return tuple(
        NOT_SENT.finding(f"{each.to}: the message is not sent: {each.reason}")
        for each in notifications
        if each.state is NotifyState.FAILED
    )


def messages_table(notifications: Sequence[Notification]) -> Table:
    """A row for each service: what became of its message, and why."""
    rows = tuple(
        row(each.to, str(each.state), each.reason or each.address or "") for each in notifications
    )
    return Table(title=TITLE, rows=rows, is_aside=True)


def outcome_of_messages(notice: Notice, notifications: Sequence[Notification]) -> Outcome:
    """The outcome of a command that only sends: messages change no result, so the verdict is None."""
    arrived = sum(each.state in _ARRIVED for each in notifications)
    return Outcome(
        verdict=None,
        summary=f"{arrived} of {amount(len(notifications), 'message')} sent",
        findings=failures(notifications),
        tables=(messages_table(notifications),),
        facts=NotifyFacts(lines=notice.lines, notifications=tuple(notifications)),
    )
