# SPDX-License-Identifier: Apache-2.0
"""Pure. The flaky tests -> entries for ci-doctor-quarantine.toml."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from ci_doctor.model.facts.history import (
    FlakyTestFacts,
    QuarantineEntryFacts,
    QuarantineFacts,
)
from ci_doctor.render.formatting import amount, percent

# One commit may have passed and failed by an accident of the machine.
FEWEST_COMMITS: Final = 2


def quarantine_facts(flaky: Iterable[FlakyTestFacts], *, now_ms: int, days: int) -> QuarantineFacts:
    """An entry for each test that passed and failed on two commits or more; it ends in `days`."""
    until = (datetime.fromtimestamp(now_ms / 1000, UTC) + timedelta(days=days)).date()
    entries = [
        QuarantineEntryFacts(
            test=f"{test.suite}::{test.name}" if test.suite else test.name,
            reason=_reason(test),
            until=until.isoformat(),
        )
        for test in flaky
        if test.mixed_commits >= FEWEST_COMMITS
    ]
    return QuarantineFacts(entries=tuple(entries), toml="\n".join(map(_toml, entries)))


def _reason(test: FlakyTestFacts) -> str:
    commits = amount(test.mixed_commits, "commit")
    return f"passed and failed on {commits}; fails in {percent(test.failure_rate.rate)}"


def _toml(entry: QuarantineEntryFacts) -> str:
    return (
        "[[quarantine]]\n"
        f"test = {_text(entry.test)}\n"
        f"reason = {_text(entry.reason)}\n"
        'owner = ""\n'
        f"until = {entry.until}\n"
    )


def _text(text: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON; DEL alone must be escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
