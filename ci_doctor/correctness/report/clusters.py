# SPDX-License-Identifier: Apache-2.0
"""Which starts answered alike, which differ from themselves, and what lines up with that. Pure."""

from collections.abc import Mapping, Sequence

from ci_doctor.correctness.report.differences import counted_results
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.verdict.compare import answering, clusters

NOT_THERE = "none"
Groups = Sequence[Sequence[str]]


def groups_of(experiment: Experiment) -> Groups:
    """The names of the starts that answered everything alike, group by group."""
    groups = []
    for names in clusters(answering(experiment.starts)):
        group = sorted(names, key=_by_arm)
        groups.append(group)
    return groups


def _by_arm(name: str) -> tuple[str, bool, int]:
    """A1 before A2 before B1, and the archived a1 after A2."""
    return name[0].upper(), name[0].islower(), int(name[1:])


def groups_by_arm(groups: Groups) -> dict[str, set[int]]:
    """By arm's letter, the indexes of the groups of its starts."""
    indexes: dict[str, set[int]] = {}
    for index, group in enumerate(groups):
        for name in group:
            # `a1` is an archived start of arm A.
            letter = name[0].upper()
            of_arm = indexes.setdefault(letter, set())
            of_arm.add(index)
    return indexes


def repeated(result: StartResult) -> bool:
    """Whether a start got a request more than once."""
    return any(len(passes) > 1 for passes in result.digests.values())


def varying_requests(result: StartResult) -> int:
    """How many requests a start answered differently in two of its passes."""
    count = 0
    for passes in result.digests.values():
        answers = set(passes.values())
        count += len(answers) > 1
    return count


def within(experiment: Experiment) -> dict[str, int]:
    """By start, how many requests vary between its passes; only starts with several passes."""
    counts = {}
    for result in counted_results(experiment):
        if repeated(result):
            counts[result.start.name] = varying_requests(result)
    return counts


def fact_differences(results: Sequence[StartResult]) -> dict[str, dict[str, str]]:
    """The facts that differ between starts, in order of name, each with its value by start."""
    # A start without any fact was not looked at: it differs in nothing.
    with_facts = [result for result in results if result.facts]
    facts: set[str] = set()
    for result in with_facts:
        facts.update(result.facts)
    differing = {}
    for fact in sorted(facts):
        values = _values(with_facts, fact)
        distinct = set(values.values())
        if len(distinct) > 1:
            differing[fact] = values
    return differing


def _values(results: Sequence[StartResult], fact: str) -> dict[str, str]:
    """The value of a fact by start."""
    values = {}
    for result in results:
        name = result.start.name
        values[name] = result.facts.get(fact, NOT_THERE)
    return values


def lines_up(groups: Groups, values: Mapping[str, str]) -> bool:
    """Whether `values` (by start) are the same inside each group, and differ between groups."""
    columns = _columns(groups, values)
    if any(len(set(column)) > 1 for column in columns):
        return False
    # If every start is a group of its own, any fact that differs would line up. That proves
    # nothing. With two starts there is nothing else to report, so it is.
    largest = max(map(len, columns), default=0)
    if largest == 1 and len(columns) != 2:
        return False
    firsts = {column[0] for column in columns}
    return len(firsts) > 1


def _columns(groups: Groups, values: Mapping[str, str]) -> list[list[str]]:
    """The values of each group that has any."""
    columns = []
    for group in groups:
        column = [values[name] for name in group if name in values]
        if column:
            columns.append(column)
    return columns
