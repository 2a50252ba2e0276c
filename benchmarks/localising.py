# SPDX-License-Identifier: Apache-2.0
"""What `correctness` says of faults planted in simulated servers, and whether it holds for requests that it never sent.

    python benchmarks/localising.py                16 kinds of faults, drawn by the seed 1
    python benchmarks/localising.py --seed 7       other kinds, numbers and requests
    python benchmarks/localising.py --only tools   one kind, may be repeated
    python benchmarks/localising.py --group usual-2     kinds that were written before the search knew them; also usual-1, rare-1, rare-2
    python benchmarks/localising.py --group composed     conditions that are drawn, not written
    python benchmarks/localising.py --record       also appends the table to benchmarks/RESULTS.md

The search is that of `ci_doctor.correctness.localise`, with its 16 starts; the servers and their faults are those of
localising_server.py, localising_faults.py and localising_unseen.py. A judge sends other requests, in other orders, and compares what is said with what differs:

named           what is said to differ does, and hardly anything else
half            what is said to differ does, and so does more
requests only   requests are named, and no condition of what they hold
nothing         no cause is named
untrue          of what is said to differ, more than one send in twenty does not

Of "any request", requests with values that the sentence excepts are not sent. A number between the one that is named and the nearest one that was equal is not judged. "not tested" stands before a
cause that the report tells as one that fits, and no more. The exit status is 1 if a line is untrue.
"""

import itertools
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from localising_faults import Kind
from localising_server import CHAT, COMPLETION, Fault, View, answered, suite
from localising_unseen import GROUPS
from msgspec.structs import replace
from results import options, record, table

from ci_doctor.correctness.localise.causes import Cause, fitting
from ci_doctor.correctness.localise.examining import NAMING
from ci_doctor.correctness.localise.search import LocalisationSearch
from ci_doctor.correctness.localise.traits import CausePart, Lane, SendTable
from ci_doctor.correctness.localise.trials import (
    LocalisedDifference,
    Trial,
    TrialBlock,
    observed,
    one_by_one,
)
from ci_doctor.load.requests import Request

# Pairs of starts of a search, and starts of the experiment before it.
PAIRS, STARTS = 8, 4
COUNT = 16
_UNTRUE = 0.05
_AT_ONCE = ("load", "whole load", "arrival", "at once")


class Case(NamedTuple):
    """A fault, in words, that shows from a `place` in answers on, and the difference that it makes in an experiment."""

    words: str
    fault: Fault
    of: LocalisedDifference
    place: int


def requests_of(bodies: Sequence[dict[str, Any]], first: int = 0) -> tuple[Request, ...]:
    return tuple(
        Request(id=f"r{at}", path=CHAT if "messages" in body else COMPLETION, body=body, line=1)
        for at, body in enumerate(bodies, start=first)
    )


def placed(holds: Callable[[View], int | None], place: int) -> Fault:
    """The fault, which shows at a place of its own, or else at this one."""

    def fault(view: View) -> int | None:
        shown = holds(view)
        return place if shown is True else None if shown is False else shown

    return fault


def planted(name: str, kind: Kind, draw: random.Random) -> Case:
    """A fault of a kind that some requests of some file show, and not all of them if it is not of load."""
    while True:
        condition = kind(draw)
        place = draw.choice([0, 0, 2, 6])
        told = condition.words + f", from token {place + 1}" * (place > 0)
        if condition.place is not None:
            told, place = condition.words, condition.place
        fault = placed(condition.holds, place)
        requests = requests_of(suite(draw, draw.randint(8, 20)))
        width, passes = draw.choice([1, 1, 4, 8]), draw.choice([1, 2])
        of = experiment(requests, fault, min(width, len(requests)), passes, draw)
        if of is not None and (len(of.differing) < len(requests) or name == "at_once"):
            return Case(told, fault, of, place)


def experiment(
    requests: Sequence[Request], fault: Fault, width: int, passes: int, draw: random.Random
) -> LocalisedDifference | None:
    """What some starts of each arm show; None if nothing differs."""
    run = Trial(
        blocks=(TrialBlock(names=tuple(each.id for each in requests), at_once=width),) * passes
    )
    named = {each.id: each for each in requests}
    right = answered(run, named, None, 0)
    wrong: Counter[str] = Counter()
    for start in range(STARTS):
        sends = observed(run, right, answered(run, named, fault, (start, draw.random()))).sends
        wrong.update({each.name for each in sends if each.wrong})
    if not wrong:
        return None
    # What differs in each start carries a regression; else all that does in some.
    least = STARTS if max(wrong.values()) == STARTS else 1
    differing = tuple(each for each in named if wrong[each] >= least)
    first = max(differing, key=lambda each: wrong[each])
    return LocalisedDifference(
        request=named[first], requests=tuple(requests), differing=differing, concurrency=width,
        passes=passes, pairs=STARTS**2, differing_pairs=STARTS * wrong[first],
    )  # fmt: skip


def near(case: Case, draw: random.Random) -> list[dict[str, Any]]:
    """Bodies of requests that differ, each without one parameter, or with the prompt of another."""
    bodies = {each.id: each.body for each in case.of.requests}
    made = []
    for _ in range(10):
        body = dict(bodies[draw.choice(case.of.differing)])
        keys = [each for each in body if each not in {"prompt", "messages", "max_tokens"}]
        if draw.random() < 2 / 3:
            del body[draw.choice(keys)]
        else:
            other = draw.choice(list(bodies.values()))
            body = {key: body[key] for key in body if key not in {"prompt", "messages"}}
            body |= {key: other[key] for key in ("prompt", "messages") if key in other}
        made.append(body)
    return made


def searched(case: Case) -> LocalisationSearch:
    search = LocalisationSearch(case.of)
    for number in range(PAIRS):
        trial = search.next_trial()
        if trial is None:
            break
        right = answered(trial, search.requests, None, (number, "right"))
        wrong = answered(trial, search.requests, case.fault, (number, "wrong"))
        search.results.append(observed(trial, right, wrong))
    return search


def held_out(case: Case, fresh: Sequence[str], draw: random.Random) -> Iterator[Trial]:
    """Orders of requests of the file and of new ones; some prompts come again, some at once."""
    for number in range(16 if case.of.concurrency == 1 else 48):
        names = draw.choices([*case.of.ids, *fresh], k=16) + draw.choices(case.of.differing, k=6)
        draw.shuffle(names)
        names = [one for each in names for one in (each,) * draw.choice([1, 1, 1, 2])]
        if number < 16:
            yield one_by_one(names[: draw.randint(3, 24)], pause_s=draw.choice([0, 0, 2]))
        else:
            group = tuple(dict.fromkeys(names))[: draw.randint(2, case.of.concurrency)]
            yield Trial(blocks=(TrialBlock(names=group, at_once=len(group)),) * 4)


def parts_in(cause: Cause) -> list[CausePart]:
    return [part for each in (cause.target, cause.context) for part in each.both or (each,)]


def is_like(part: CausePart, other: CausePart) -> bool:
    """Whether two parts say the same, but for a number."""
    if part.said and other.said:
        return part.said.split(", measured")[0] == other.said
    return part.words == other.words


def claim_of(cause: Cause, sends: SendTable, known: int) -> tuple[int, int] | None:
    """The sends that differ by a cause of the first `known` ones, and those of which it says nothing; None if it fits them no more.

    Nothing is said between a number and the nearest one that was equal.
    """
    fit = [*fitting(sends, known), *fitting(sends, known, plain_alone=True)]
    for like in (each for each in fit if each.family == cause.family):
        pairs = list(zip(parts_in(cause), parts_in(like), strict=True))
        if all(itertools.starmap(is_like, pairs)):
            mask, unsure = -1, like.target.unsure | like.context.unsure
            for part, other in pairs:
                inside, between = numbered(part, other, sends) if part.said else (other.mask, 0)
                mask, unsure = mask & inside, unsure | between
            return mask & ~unsure, unsure
    return None


def numbered(part: CausePart, like: CausePart, sends: SendTable) -> tuple[int, int]:
    """The sends from the number of a part on, and those between it and the nearest one that was equal."""
    numbers = like.numbers
    sign = -1 if all(each <= 0 for each in numbers if not math.isnan(each)) else 1
    least = sign * (part.least or 0)
    below = least if part.below is None else sign * part.below
    low, high = sorted((least, below))
    without = sends.mask(map(math.isnan, numbers)) & like.mask
    return without | sends.mask(each >= high for each in numbers), sends.mask(
        low < each < high for each in numbers
    )


class Held(NamedTuple):
    """Of the sends that were held out: how many differ as it is said, how many are equal though it is said, and how many differ beside."""

    right: int
    false: int
    missed: int


def held(case: Case, search: LocalisationSearch, cause: Cause, draw: random.Random) -> Held | None:
    """How a cause holds of other sends; None if nothing is said of them."""
    bodies = [*suite(draw, 24)[:12], *near(case, draw)]
    # The sentence says of what there was one value alone.
    same = search.unvaried(cause)
    bodies = [body for body in bodies if all(body.get(key, same[key]) == same[key] for key in same)]
    fresh = requests_of(bodies, first=100)
    requests = search.requests | {each.id: each for each in fresh}
    lanes: list[Lane] = []
    for number, trial in enumerate(held_out(case, [each.id for each in fresh], draw)):
        right = answered(trial, requests, None, number)
        lanes.append(observed(trial, right, answered(trial, requests, case.fault, number)).sends)
    untold = [[replace(each, wrong=None) for each in lane] for lane in lanes]
    known = search.lanes()
    at = begin = sum(map(len, known))
    claim = claim_of(cause, SendTable([*known, *untold], requests, case.of.ids, {}), begin)
    if claim is None:
        return None
    place = search.place() - 1 if cause.family == ("any", "any") else case.place
    load = cause.context.family.startswith(_AT_ONCE)
    is_beside = "beside" in cause.context.family or cause.context.family.startswith("shared")
    is_of_groups = load or is_beside or cause.context.family == "any"
    shown: dict[tuple[int, str, int], list[tuple[bool, bool]]] = {}
    for number, lane in enumerate(lanes):
        for each in lane:
            is_open = claim[1] >> at & 1 or not (each.wrong or each.length > place)
            # Of a group nobody knows what came before, and of one alone nothing is said with a load.
            is_meant = is_of_groups if each.at_once > 1 else not load
            if is_meant and not is_open:
                # In a group a request counts once.
                key = (number, each.name, -1 if each.at_once > 1 else at)
                shown.setdefault(key, []).append((bool(claim[0] >> at & 1), bool(each.wrong)))
            at += 1
    counts = Counter(
        (any(claim for claim, _ in some), any(wrong for _, wrong in some))
        for some in shown.values()
    )
    return Held(counts[True, True], counts[True, False], counts[False, True])


def grade(case: Case, search: LocalisationSearch, cause: Cause, draw: random.Random) -> str:
    is_name = cause.target.family.startswith(NAMING)
    of = held(case, search, cause, draw)
    if of is None or not of.right + of.false:
        return "requests only" if is_name and cause.context.family == "any" else "not judged"
    if of.false > _UNTRUE * (of.right + of.false):
        return f"untrue ({of.false} of {of.right + of.false})"
    if is_name:
        return "requests only"
    return "named" if of.missed <= _UNTRUE * (of.right + of.missed) else "half"


def row(name: str, kind: Kind, seed: int) -> tuple[str, str, str]:
    """The fault, what was said, and the judge's grade."""
    draw = random.Random(f"{name} {seed}")
    case = planted(name, kind, draw)
    search = searched(case)
    conclusion, found = search.conclusion(), search.found()
    if found is None:
        return case.words, f"rates: {conclusion.by_rate}" if conclusion.by_rate else "", "nothing"
    grades = [grade(case, search, each, draw) for each in (found.cause, *found.rivals)]
    untrue = [each for each in grades if each.startswith("untrue")]
    said = "; or: ".join([conclusion.cause or "", *conclusion.rivals])
    return (
        case.words,
        ("" if conclusion.is_tested else "not tested: ") + said,
        (untrue or grades)[0],
    )


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--group", choices=list(GROUPS), default="known")
    parser.add_argument("--only", action="append", metavar="KIND")
    arguments = parser.parse_args()
    kinds = GROUPS[arguments.group]
    began, rows, counts = time.process_time(), [], Counter[str]()
    names = arguments.only or random.Random(arguments.seed).sample(list(kinds), COUNT)
    for name in names:
        fault, said, graded = row(name, kinds[name], arguments.seed)
        counts[graded.partition(" (")[0]] += 1
        rows.append((fault, said, graded))
        print(f"{graded:15} {name}: {fault}\n    {said}", flush=True)
    summary = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    print(f"\n{summary}; {time.process_time() - began:.0f} s of CPU")
    if arguments.record:
        lines = table(
            "fault | said | right", [[each.replace("|", "/") for each in some] for some in rows]
        )
        record(
            f"localisation of planted faults, {arguments.group} kinds, seed {arguments.seed}",
            [*lines, "", f"{summary}."],
        )
    return 1 if counts["untrue"] else 0


if __name__ == "__main__":
    sys.exit(main())
