# SPDX-License-Identifier: Apache-2.0
"""The test of a cause: it foretells which of new requests differ, in new orders, and chance is to be excluded. Pure.

A cause is the cheapest of thousands that fit, so that it fits what it was made from is no proof. The new requests
are mixed of those of the run: the prompt of one, or its beginning and the end of another's, with the parameters of both.
Each condition of a cause counts for itself, among the sends of which all its other conditions hold. If it did not
matter there, those that differ would be any of them: `chance` says how often they are among those with it, and none
of those without. It is a permutation test of one side (Fisher, "The Design of Experiments", 1935), in each start by itself.
"""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ci_doctor.correctness.localise.causes import Cause
from ci_doctor.correctness.localise.traits import CausePart, SendTable, places_in
from ci_doctor.correctness.localise.trials import EXAM_LEVEL, Exam, Trial, TrialBlock, one_by_one
from ci_doctor.load.prompts import PROMPT_KEYS
from ci_doctor.load.requests import Request

# So many requests are sent to a start, and so many of them are mixed.
_SENDS, _MIXED = 40, 24
# Kinds of requests, of which one is chosen.
_KINDS = 1000
_DRAWN, _GROUPS, _TIMES = 12, 12, 2
# What belongs together: one without the other is refused.
_UNITS = (
    {"stream", "stream_options"},
    {"tools", "tool_choice", "parallel_tool_calls"},
    {"logprobs", "top_logprobs"},
    {"n", "best_of", "temperature"},
    {"min_tokens", "max_tokens", "max_completion_tokens"},
)
# These name requests, and no condition: that the same request differs again is what they say.
NAMING = ("some", "prompt of", "all of")


def chance(differing: int, of: int, equal: int) -> float:
    """How often all that differ are among the first `of`, and none among so many `equal`, by chance."""
    return math.comb(of, differing) / math.comb(of + equal, differing)


def mixed(
    requests: Sequence[Request], target: Request, draw: random.Random, number: int
) -> list[Request]:
    """Requests that are mixed of two of the same API, half of them of `target`: they hold what these hold, in other company."""
    made = []
    for count in range(_MIXED):
        one = target if count % 2 else draw.choice(requests)
        other = draw.choice([each for each in requests if each.path == one.path] or [one])
        body = _mixed_parameters(one.body, other.body, draw)
        for key in PROMPT_KEYS:
            if key in one.body:
                body[key] = _mixed_prompt(one.body[key], other.body.get(key), draw)
        name = f"mix {number}.{count + 1} of {one.id} and {other.id}"
        made.append(Request(id=name, path=one.path, body=body, line=0, protocol=one.protocol))
    return made


def _mixed_parameters(
    one: Mapping[str, Any], other: Mapping[str, Any], draw: random.Random
) -> dict[str, Any]:
    body: dict[str, Any] = {}
    chosen: dict[frozenset[str], Mapping[str, Any]] = {}
    for key in dict.fromkeys((*one, *other)):
        if key not in PROMPT_KEYS:
            unit = frozenset(next((each for each in _UNITS if key in each), {key}))
            owner = chosen.setdefault(unit, draw.choice((one, other)))
            body |= {key: owner[key]} if key in owner else {}
    return body


def _mixed_prompt(one: Any, other: Any, draw: random.Random) -> Any:
    """A prompt as it is, or its beginning with the end of another; of a chat that is the last message."""
    if draw.random() < 1 / 3:
        return one
    if isinstance(one, str) and isinstance(other, str):
        begin, end = one.split(" "), other.split(" ")
        return " ".join(begin[: draw.randint(1, len(begin))] + end[draw.randrange(len(end)) :])
    is_chat = all(
        isinstance(each, list) and each and isinstance(each[-1], dict) for each in (one, other)
    )
    if is_chat and all(isinstance(each[-1].get("content"), str) for each in (one, other)):
        content = _mixed_prompt(one[-1]["content"], other[-1]["content"], draw)
        return [*one[:-1], {**one[-1], "content": content}]
    return one


def orders(
    names: Sequence[str],
    new: Sequence[str],
    parts: Sequence[Sequence[str]],
    at_once: int,
    draw: random.Random,
) -> Iterator[Trial]:
    """Trials of requests of the run and new ones; `parts` are sequences that differ, and stand between them.

    With several `at_once`, in groups of many sizes.
    """
    for _ in range(_DRAWN):
        some = draw.sample(new, draw.randint(_MIXED // 2, _MIXED))
        if at_once > 1:
            blocks = []
            for _ in range(_GROUPS // _TIMES):
                size = draw.randint(1, at_once)
                group = draw.sample([*names, *some], min(size, len(names)))
                again = draw.sample(group, len(group))
                blocks += [TrialBlock(names=tuple(each), at_once=size) for each in (group, again)]
            yield Trial(blocks=tuple(blocks))
            continue
        sent: list[str] = []
        while len(sent) < _SENDS:
            sort = draw.random()
            if sort < 0.1:
                sent += draw.choice(parts)
            elif sort < 0.3 and sent:
                sent.append(draw.choice(sent[-6:]))
            else:
                sent.append(draw.choice([*names, *some]))
        yield one_by_one(sent[:_SENDS])


def _conditions(cause: Cause) -> list[tuple[CausePart, int]]:
    """Each condition, with the sends of which all others hold."""
    parts = [part for part in _parts_in(cause) if part.family != "any"]
    made = []
    for part in parts:
        rest = -1
        for each in parts:
            rest &= -1 if each is part else each.mask
        made.append((part, rest))
    return made


def examined(
    cause: Cause, table: SendTable, lanes: Sequence[tuple[int, int]], wrong: int, known: int
) -> Exam:
    """What sends show of a cause: those of the lanes that it has foretold, by their first bits and lengths. `wrong` differ."""
    foretold = [((1 << size) - 1) << begin for begin, size in lanes]
    inside = sum(foretold) & known
    targets = cause.target.both or (cause.target,)
    chances = []
    for part, rest in _conditions(cause):
        if part not in targets or part.family.startswith(NAMING):
            chances.append(
                math.prod(_chance(table, part, rest & bits & known, wrong) for bits in foretold)
            )
            continue
        # What requests hold was chosen of so many kinds by what earlier ones had shown, which counts as well.
        later = _chance(table, part, rest & inside, wrong, by_name=True)
        chances.append(min(later, _KINDS * _chance(table, part, rest & known, wrong, by_name=True)))
    differing = (inside & wrong & cause.mask).bit_count()
    equal = (inside & ~wrong & ~cause.mask).bit_count()
    # It says of each request that it differs: as often as not would be chance.
    return Exam(
        differing=differing, equal=equal, other=(inside & (wrong ^ cause.mask)).bit_count(),
        chance=max(chances, default=0.5**differing),
    )  # fmt: skip


def telling_order(
    cause: Cause, rivals: Sequence[Cause], table: SendTable, begins: Sequence[int]
) -> int:
    """Which of the orders of requests that begin at these sends, the last one being their end, tests a cause best.

    Of those that exclude chance, it is the one of which the `rivals` foretell most otherwise.
    """
    told = table.mask(each.wrong is not None for each in table.sends)
    ranked = []
    for at, (begin, end) in enumerate(itertools.pairwise(begins)):
        sent = (1 << end) - (1 << begin)
        wrong = table.wrong | cause.mask & sent
        exam = examined(cause, table, [(begin, end - begin)], wrong, told | sent)
        apart = sum(
            2.0**-each.cost
            for each in rivals
            if (each.mask ^ cause.mask) & sent & ~(each.context.unsure | each.target.unsure)
        )
        ranked.append((max(exam.chance, EXAM_LEVEL), -apart, exam.chance, at))
    return min(ranked)[-1]


def _chance(
    table: SendTable, part: CausePart, bits: int, wrong: int, *, by_name: bool = False
) -> float:
    """The chance of what these sends show of one condition, where all others hold."""
    inside = _units(table, bits & part.mask, by_name=by_name)
    outside = _units(table, bits & ~part.mask, by_name=by_name)
    shown = sum(bool(each & wrong) for each in inside.values())
    return chance(shown, len(inside), len(outside.keys() - inside.keys()))


def _units(table: SendTable, bits: int, *, by_name: bool) -> dict[object, int]:
    """Sends by what counts once: a request, for what it holds; else a send, or a request in one company."""
    units: dict[object, int] = defaultdict(int)
    company: dict[int, frozenset[str]] = {}
    for block in table.together if bits else ():
        names = frozenset(table.sends[at].name for at in places_in(block))
        company |= dict.fromkeys(places_in(block & bits), names)
    for at in places_in(bits):
        name = table.sends[at].name
        units[name if by_name else (name, company[at]) if at in company else at] |= 1 << at
    return units


def is_within(cause: Cause, earlier: Cause) -> bool:
    """Whether it is the earlier one, whose numbers may have come nearer to the border since."""
    parts, former = _parts_in(cause), _parts_in(earlier)
    return cause.family == earlier.family and all(map(_is_nearer, parts, former))


def _parts_in(cause: Cause) -> list[CausePart]:
    return [part for each in (cause.target, cause.context) for part in (each.both or (each,))]


def _is_nearer(part: CausePart, former: CausePart) -> bool:
    if part.least is None or former.least is None:
        return part.words == former.words
    ends = (former.least, part.least if former.below is None else former.below)
    return min(ends) <= part.least <= max(ends)
