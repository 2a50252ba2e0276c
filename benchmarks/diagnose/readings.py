# SPDX-License-Identifier: Apache-2.0
"""Reads logs with all house rules, or without those that only a few repositories' logs support."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

from labelled_logs import LabelledLog, is_named, is_shown
from msgspec import Struct

from ci_doctor.diagnosis.diagnosis import ranking
from ci_doctor.diagnosis.log_rules import RuleSet, house_rules
from ci_doctor.diagnosis.log_story import read_story
from ci_doctor.diagnosis.open_log import open_log
from ci_doctor.diagnosis.rank import features

FOLDS = 10
_WORKERS = 2


class Reading(Struct, frozen=True, kw_only=True):
    """What is named first in a log: line, rule, class, the features of the confidence.

    All are None if there is no candidate.
    """

    line: int | None = None
    rule: str | None = None
    class_: str | None = None
    values: dict[str, float] | None = None


class Row(Struct, frozen=True, kw_only=True):
    """A log and its reading: group is what a fold may not tear apart."""

    group: str
    source: str
    reading: Reading
    is_named: bool = False
    is_shown: bool = False
    category: str | None = None


@cache
def _rules_without(removed: frozenset[str]) -> RuleSet:
    return RuleSet([rule for rule in house_rules() if rule.id not in removed])


def read(path: Path, removed: frozenset[str] = frozenset()) -> Reading:
    """The reading of the log at `path` without the rules whose ids are `removed`."""
    with open_log(str(path)) as log:
        story = read_story(log, 0, _rules_without(removed))
        ranked = ranking([story], [log])
    if not ranked:
        return Reading()
    candidate = ranked[0]
    class_ = candidate.rule.class_
    return Reading(
        line=candidate.line.number,
        rule=candidate.rule.id,
        class_=None if class_ is None else class_.value,
        values=features(ranked),
    )


def rows_of(
    logs: Sequence[LabelledLog], removed: Sequence[frozenset[str]] | None = None
) -> list[Row]:
    """A row for each log; `removed` are the rules to leave out, log by log."""
    paths = [log.path for log in logs]
    with ProcessPoolExecutor(_WORKERS) as pool:
        readings = list(pool.map(read, paths, removed or [frozenset()] * len(logs), chunksize=8))
    return [_row(log, reading) for log, reading in zip(logs, readings, strict=True)]


def _row(log: LabelledLog, reading: Reading) -> Row:
    return Row(
        group=log.repository,
        source=log.source,
        reading=reading,
        is_named=is_named(log.spans, reading.line),
        is_shown=is_shown(log.spans, reading.line),
        category=log.category,
    )


def passing_rows(folder: Path) -> list[Row]:
    """A row for each log of a passing run in `folder`."""
    paths = sorted(folder.glob("*.log"))
    with ProcessPoolExecutor(_WORKERS) as pool:
        readings = list(pool.map(read, paths, chunksize=8))
    return [
        Row(group=path.name.split("-")[0], source="passing", reading=reading)
        for path, reading in zip(paths, readings, strict=True)
    ]


def folds(groups: Collection[str]) -> dict[str, int]:
    """From each group to its fold."""
    return {group: index % FOLDS for index, group in enumerate(sorted(set(groups)))}


def own_support(rows: Sequence[Row]) -> list[frozenset[str]]:
    """For each row the rules which only its own fold supports; `rows` are read with all rules.

    A rule is supported by a repository if it names a label there. Whoever wrote a rule may have
    done so for these very logs; what is left was at least useful elsewhere. Rules that were
    written from knowledge alone and happen to be supported once are among them too, so figures
    without them are lower than those on logs that nobody has seen.
    """
    fold_of = folds([row.group for row in rows])
    support: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        if row.is_named and row.reading.rule is not None:
            support[row.reading.rule].add(fold_of[row.group])
    removed = []
    for row in rows:
        own = {fold_of[row.group]}
        removed.append(frozenset(rule for rule in support if support[rule] == own))
    return removed
