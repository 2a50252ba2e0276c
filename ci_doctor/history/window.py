# SPDX-License-Identifier: Apache-2.0
"""Pure. Which attempts a question is about: a time, and a branch."""

from msgspec import Struct

from ci_doctor.history.schema import DAY_MS


class HistoryWindow(Struct, frozen=True, kw_only=True):
    """From `since_ms` to `until_ms`, on `branch`; None stands for all branches."""

    since_ms: int
    until_ms: int
    branch: str | None = None

    @property
    def first_day(self) -> int:
        """Days since 1970 of its beginning."""
        return self.since_ms // DAY_MS

    @property
    def last_day(self) -> int:
        """Days since 1970 of its end."""
        return self.until_ms // DAY_MS


def last_days(days: int, now_ms: int, branch: str | None = None) -> HistoryWindow:
    """The last `days` days up to now, in whole days of UTC."""
    first = now_ms // DAY_MS - days + 1
    return HistoryWindow(since_ms=max(first, 0) * DAY_MS, until_ms=now_ms, branch=branch)
