# SPDX-License-Identifier: Apache-2.0
"""On which devices the starts ran, and whether their answers follow the device. Pure.

The devices were drawn for each pair of starts. So if they do not matter, the devices under which an
answer came are chance, and how often chance alone would give one answer to one device is counted.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.correctness import rules
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.verdict.schedule import together
from ci_doctor.model.facts.correctness import DeviceFacts
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.table import Table, row
from ci_doctor.render.formatting import amount, listed, probability

# Fewer starts on a device show no "always".
_FEWEST = 2
_LEVEL = 0.05
# What one of two devices does not get, the other one does.
_MIRRORED = 2


class DeviceSplit(Struct, frozen=True, kw_only=True):
    """`requests` that the starts on a device (`on`) answer in one way and `others` never so.

    Or the other way round, as `is_steady` tells of the device. `chance`: how often the draw of the
    devices gives a device such an answer, if devices do not matter.
    """

    place: str
    on: tuple[StartResult, ...]
    others: tuple[StartResult, ...]
    requests: tuple[str, ...]
    is_steady: bool
    chance: float


def device_tables(results: Sequence[StartResult]) -> Iterator[Table]:
    """The starts of each device; no table if none was drawn."""
    by_place: dict[str, list[str]] = {}
    for result in results:
        if result.start.devices:
            by_place.setdefault(result.start.devices, []).append(result.start.name)
    rows = tuple(row(place, " ".join(names)) for place, names in sorted(by_place.items()))
    if rows:
        yield Table(title="Devices", columns=("starts",), rows=rows, is_aside=True)


def device_facts(results: Sequence[StartResult]) -> tuple[DeviceFacts, ...]:
    """The devices of each start for which they were drawn."""
    placed = (result for result in results if result.start.devices)
    return tuple(DeviceFacts(start=each.start.name, devices=each.start.devices) for each in placed)


def device_findings(
    results: Sequence[StartResult], drawn_by: Rules, places: int, at_once: int
) -> Iterator[Finding]:
    """That answers follow the device; a note if chance may well be the reason."""
    split = device_split(results, drawn_by, places, at_once)
    if split is None:
        return
    is_sure = split.chance <= _LEVEL
    steady, varied = (split.on, split.others) if split.is_steady else (split.others, split.on)
    alike = "answer alike to"
    if steady[0].start.answers.get(split.requests[0]) is None:
        alike = "do not answer"
    evidence = tuple(
        Evidence(excerpt=f"{label}: {_names(each)}")
        for label, each in ((f"on device {split.place}", split.on), ("elsewhere", split.others))
    )
    summary = (
        f"{amount(len(split.requests), 'answer')} {'follow' if is_sure else 'may follow'} the device, "
        f"not the arm: {_names(steady)} {alike} {listed(split.requests, 3)}, "
        f"and {_names(varied)} never so; {len(split.on)} ran on device {split.place} and "
        f"{len(split.others)} elsewhere; the draw of the devices alone does so in "
        f"{probability(100 * split.chance)}% of cases"
    )
    severity = Severity.WARNING if is_sure else Severity.NOTE
    yield rules.DEVICE.finding(summary, evidence=evidence, severity=severity)


def device_split(
    results: Sequence[StartResult], drawn_by: Rules, places: int, at_once: int
) -> DeviceSplit | None:
    """The requests whose answers separate one device from the others; None if none do.

    Of two devices that do, the one with more such requests. Not if that separates the arms as well.
    """
    made = [result for result in results if result.counts and not result.start.archived]
    starts = [result.start for result in made]
    waves = {
        result.start.name: together(starts, drawn_by, index, at_once)
        for index, result in enumerate(made)
    }
    members = [each for each in made if each.start.devices]
    patterns = _patterns(members)
    everyone = frozenset(each.start.name for each in members)
    # Any of these answers to some device, or to all but one; of two devices that is the same.
    sets = {each for names in patterns for each in (names, everyone - names)}
    chance = sum(_chance(members, names, waves, places) for names in sets)
    splits = []
    for place in dict.fromkeys(each.start.devices for each in members):
        on = tuple(each for each in members if each.start.devices == place)
        others = tuple(each for each in members if each.start.devices != place)
        arms = [{each.start.arm for each in side} for side in (on, others)]
        if min(len(on), len(others)) < _FEWEST or not arms[0] & arms[1]:
            continue
        names = frozenset(each.start.name for each in on)
        requests = (*patterns.get(names, ()), *patterns.get(everyone - names, ()))
        if requests:
            split = DeviceSplit(
                place=place,
                on=on,
                others=others,
                requests=tuple(dict.fromkeys(requests)),
                is_steady=names in patterns,
                chance=min(1.0, chance if places == _MIRRORED else places * chance),
            )
            splits.append(split)
    return max(splits, key=lambda split: len(split.requests), default=None)


def _patterns(members: Sequence[StartResult]) -> dict[frozenset[str], tuple[str, ...]]:
    """Sets of starts that gave a request one answer which no other start gave, with these requests."""
    patterns: dict[frozenset[str], tuple[str, ...]] = {}
    requests = members[0].start.answers if members else {}
    for request in requests:
        by_answer: dict[str | None, set[str]] = {}
        for each in members:
            by_answer.setdefault(each.start.answers.get(request), set()).add(each.start.name)
        for names in map(frozenset, by_answer.values()):
            if _FEWEST <= len(names) <= len(members) - _FEWEST:
                patterns[names] = (*patterns.get(names, ()), request)
    return patterns


def _chance(
    members: Sequence[StartResult], names: frozenset[str], waves: dict[str, range], places: int
) -> float:
    """How often one device is drawn for exactly these starts: at most one of those that run at once."""
    sizes: dict[range, list[bool]] = {}
    for each in members:
        sizes.setdefault(waves[each.start.name], []).append(each.start.name in names)
    chance = 1.0
    for inside in sizes.values():
        match sum(inside):
            case 0:
                chance *= 1 - len(inside) / places
            case 1:
                chance /= places
            case _:
                return 0.0
    return chance


def _names(results: Sequence[StartResult]) -> str:
    return listed([result.start.name for result in results], 8)
