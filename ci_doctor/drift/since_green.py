# SPDX-License-Identifier: Apache-2.0
"""Pure. What changed since the last green run, as a table and as one sentence."""

from typing import Final

from msgspec import Struct

from ci_doctor.drift.change import Drift, Suspicion, short_phrase
from ci_doctor.drift.compare import compare
from ci_doctor.drift.facts import drift_facts
from ci_doctor.drift.green_runs import GreenRun, NoGreenRun, label
from ci_doctor.drift.outcome import SHOWN, change_rows, one_sided_row
from ci_doctor.drift.snapshot import Snapshot
from ci_doctor.model.facts.drift import SinceGreenFacts
from ci_doctor.model.table import Row, Table

_TITLE: Final = "Since the last green run"
_IN_A_SENTENCE: Final = 4
_NOW: Final = "this run"


class SinceGreen(Struct, frozen=True, kw_only=True):
    """A section of a report: `table`, its first line, and the same for programs."""

    table: Table
    line: str
    facts: SinceGreenFacts


def since_green(green: GreenRun | NoGreenRun, now: Snapshot) -> SinceGreen:
    """What is different `now`; why that is unknown, if there is no green run to compare with."""
    if isinstance(green, NoGreenRun):
        return unknown_since_green(green.reason)
    drift = compare(green.snapshot, now)
    line = f"since the last green run: {_phrase(drift)}"
    rows = [Row(label=line)]
    rows += change_rows(drift.changes)
    # What one side does not know, and what would matter.
    one_sided = [each for each in drift.one_sided if each.suspicion is not Suspicion.INFORMATION]
    rows += [one_sided_row(each) for each in one_sided[:SHOWN]]
    return SinceGreen(
        table=Table(title=f"{_TITLE} ({label(green)})", rows=tuple(rows)),
        line=line,
        facts=SinceGreenFacts(unknown=None, drift=drift_facts(drift, green.source, _NOW)),
    )


def unknown_since_green(reason: str) -> SinceGreen:
    """The section of a run whose changes cannot be known: never `no changes`."""
    line = f"unknown: {reason}"
    return SinceGreen(
        table=Table(title=_TITLE, rows=(Row(label=line),)),
        line=f"since the last green run: {line}",
        facts=SinceGreenFacts(unknown=reason, drift=None),
    )


def _phrase(drift: Drift) -> str:
    """The most suspicious changes in words; informational ones only if there are no others."""
    relevant = [each for each in drift.changes if each.suspicion is not Suspicion.INFORMATION]
    if not relevant:
        return _without_suspects(drift)
    phrases = [short_phrase(each) for each in relevant[:_IN_A_SENTENCE]]
    rest = len(relevant) - len(phrases)
    if rest:
        phrases.append(f"and {rest} more")
    return ", ".join(phrases)


def _without_suspects(drift: Drift) -> str:
    unknown = [each for each in drift.one_sided if each.suspicion is not Suspicion.INFORMATION]
    if unknown:
        return f"no difference is known, and {len(unknown)} facts are known to one side only"
    if drift.changes:
        return f"only {len(drift.changes)} informational differences"
    return "no difference"
