# SPDX-License-Identifier: Apache-2.0
"""Each claim of `where it differs` is recomputed from the trials in the report's facts, and none contradicts them.

Requests and servers are drawn. What a phrase means is written here once more, over bodies alone.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.causes import fitting
from ci_doctor.correctness.localise.report import localisation_facts, localisation_finding
from ci_doctor.correctness.localise.search import LocalisationSearch
from ci_doctor.correctness.localise.traits import SendTable
from ci_doctor.correctness.localise.trials import (
    Localisation,
    Trial,
    TrialBlock,
    TrialSend,
    observed,
    words,
)
from ci_doctor.correctness.localise.weights import bracketed
from ci_doctor.model.facts.correctness import LocalisationFacts, LocalisationTrial
from tests.unit.correctness.localise.subjects import BODIES, Body, Fault, answered, subject

ARGV = ("correctness", "--report-dir", "out")


class Sent(Struct, frozen=True):
    """One send of a start: what came before it, what is under way with it, and what is known of it."""

    name: str
    body: Body
    before: Sequence[Body]
    beside: Sequence[Body]
    at_once: int
    start: int
    wrong: bool | None


def sends_of(trial: LocalisationTrial, bodies: Mapping[str, Body], start: int) -> Iterator[Sent]:
    before: list[Body] = []
    place = 0
    for names in trial.sent:
        group = [bodies[name] for name in names]
        at_once = min(trial.at_once, len(names))
        came = list(before)
        for at, name in enumerate(names):
            place += 1
            wrong = None if place in trial.untold else place in trial.differing
            beside = [*group[:at], *group[at + 1 :]] if at_once > 1 else []
            sent = [*came, *group[:at]]
            yield Sent(name, bodies[name], sent, beside, at_once, start, wrong)
        before += group


Holds = Callable[[Body], bool]
Applies = Callable[[Sent], bool]


def prompt(body: Body) -> str:
    return str(body["prompt"])


def kind(text: str, named: Mapping[str, Body]) -> Holds | None:
    """What requests of a phrase hold; None for what is not written here."""
    forms: list[tuple[str, Callable[..., Holds]]] = [
        (r"any request", lambda: lambda _: True),
        (r"requests with `(\w+)`", lambda key: lambda x: key in x),
        (r"requests without `(\w+)`", lambda key: lambda x: key not in x),
        (r"requests with `(\w+)` (\d+) or more", lambda key, n: lambda x: x.get(key, -1) >= int(n)),
        (r"requests with `(\w+)` (\d+) or more or none", lambda key, n: lambda x: key not in x or x[key] >= int(n)),
        (r"requests with `(\w+)` (\d+) or less", lambda key, n: lambda x: key in x and x[key] <= int(n)),
        (r"requests with `(\w+)` (\S{1,24})", lambda key, value: lambda x: key in x and str(x[key]) == value),
        (r"prompts of (\d+) characters or more", lambda n: lambda x: len(prompt(x)) >= int(n)),
        (r"prompts of (\d+) characters or fewer", lambda n: lambda x: len(prompt(x)) <= int(n)),
        (r"prompts of (\d+) tokens or more", lambda n: lambda x: max(1, len(prompt(x)) // 4) >= int(n)),
        (r"prompts of (\d+) tokens or fewer", lambda n: lambda x: max(1, len(prompt(x)) // 4) <= int(n)),
        (r"prompts with `(.+)`", lambda part: lambda x: part in prompt(x)),
        (r"prompts that end with `(.)`", lambda part: lambda x: prompt(x).endswith(part)),
        (r"prompts with a character that is not ASCII", lambda: lambda x: not prompt(x).isascii()),
        (r"requests with the prompt of (r\d+)", lambda name: lambda x: prompt(x) == prompt(named[name])),
        (r"requests with the prompt and the parameters of (r\d+)", lambda name: lambda x: x == named[name]),
        (r"the prompts of (r[r\d, ]+)", lambda some: lambda x: prompt(x) in {prompt(named[each]) for each in some.split(", ")}),
        (r"the requests (r[r\d, ]+)", lambda some: lambda x: x in [named[each] for each in some.split(", ")]),
    ]  # fmt: skip
    for form, of in forms:
        match = re.fullmatch(form, text)
        if match:
            return of(*match.groups())
    both = re.fullmatch(r"of the (.+), the (.+)", text)
    if both:
        parts = [kind(each, named) for each in (*both[1].split(" and of the "), both[2])]
        return all_of(parts)
    if re.fullmatch(r"requests with .+(, .+)* and .+", text):
        parts_in = re.split(r", | and ", text.removeprefix("requests with "))
        return all_of([kind(f"requests with {each}", named) for each in parts_in])
    return None


def all_of(parts: Sequence[Callable[[Any], bool] | None]) -> Callable[[Any], bool] | None:
    known = [each for each in parts if each is not None]
    return (lambda x: all(each(x) for each in known)) if len(known) == len(parts) else None


def on_body(holds: Holds) -> Applies:
    return lambda each: holds(each.body)


def context(text: str, named: Mapping[str, Body]) -> Applies | None:
    """Where a phrase applies; None for what is not written here."""
    forms: list[tuple[str, Callable[..., Applies]]] = [
        (r"", lambda: lambda _: True),
        (r"as the first of a start", lambda: lambda e: not e.before),
        (r"from the (\d+)\w\w request of a start on", lambda n: lambda e: len(e.before) + 1 >= int(n)),
        (r"as the (\d+)\w\w request of a start", lambda n: lambda e: len(e.before) + 1 == int(n)),
        (r"as the (\d+)\w\w to the (\d+)\w\w request of a start", lambda n, m: lambda e: int(n) <= len(e.before) + 1 <= int(m)),
        (r"up to the (\d+)\w\w request of a start", lambda n: lambda e: len(e.before) + 1 <= int(n)),
        (r"as every (\d+)\w\w request of a start \((\d+), .*\)", lambda n, first: lambda e: (len(e.before) + 1 - int(first)) % int(n) == 0 and len(e.before) + 1 >= int(first)),
        (r"once a start has got (\d+) characters of prompts", lambda n: lambda e: sum(map(len, map(prompt, e.before))) >= int(n)),
        (r"once a start has answered (\d+) tokens", lambda n: lambda e: sum(x.get("max_tokens", 16) for x in e.before) >= int(n)),
        (r"if the same prompt came before", lambda: lambda e: prompt(e.body) in map(prompt, e.before)),
        (r"if (\d+) or more requests are under way at once", lambda n: lambda e: e.at_once >= int(n)),
    ]  # fmt: skip
    for form, of in forms:
        match = re.fullmatch(form, text)
        if match:
            return of(*match.groups())
    after = re.fullmatch(r"after (r\d+(?:(?:, | and )r\d+)*)", text)
    if after:
        some = [prompt(named[each]) for each in re.findall(r"r\d+", after[1])]
        return lambda e: set(some) <= set(map(prompt, e.before))
    counted: list[tuple[str, Callable[[Holds, int], Applies]]] = [
        (r"right after ()(.+)", lambda holds, _n: lambda e: bool(e.before) and holds(e.before[-1])),
        (r"after (\d+) (.+)", lambda holds, n: lambda e: sum(map(holds, e.before)) >= n),
        (r"after ()(.+)", lambda holds, _n: lambda e: any(map(holds, e.before))),
        (r"at once with ()(.+)", lambda holds, _n: lambda e: any(map(holds, e.beside))),
        (r"as the first of the ()(.+) in a start", lambda holds, _n: lambda e: holds(e.body) and not any(map(holds, e.before))),
        (r"as every (\d+)\w\w of the (.+) in a start", lambda holds, n: lambda e: holds(e.body) and sum(map(holds, e.before)) % n == n - 1),
        (r"as one of the (\d+) requests after (.+)", lambda holds, n: lambda e: any(map(holds, e.before[-n:]))),
    ]  # fmt: skip
    for form, made in counted:
        match = re.fullmatch(form, text)
        if match:
            who = match[2]
            holds = kind(f"requests with the prompt of {who}" if who in named else who, named)
            return made(holds, int(match[1] or 0)) if holds else None
    return None


def meaning(text: str, named: Mapping[str, Body]) -> Applies | None:
    """The sends that a cause says to differ."""
    match = re.fullmatch(r"(.+?) differs?( .+)?", text)
    assert match, text
    holds, applies = kind(match[1], named), context((match[2] or "").strip(), named)
    if holds is None or applies is None:
        return None
    return lambda e: holds(e.body) and applies(e)


def check_cause(said: str, sends: Sequence[Sent], named: Mapping[str, Body]) -> bool:
    """Of what is sent one at a time the cause says each; of a group, no other request differs. Whether it is read."""
    said = re.sub(r" \(only [^()]* (was|were) sent\)", "", said)
    said = re.sub(r", from about token \d+ of its answer on", "", said)
    # What names requests says nothing of those copies that differ.
    said, has_more, rest = said.partition(" (so do some changed copies)")
    said += rest
    said, _, equal = said.partition(" (equal: ")
    said, _, bracket = re.sub(r" \((\d+(?: and \d+)*): equal\)", r"|\1", said).partition("|")
    applies = meaning(said, named)
    if applies is None:
        return False
    for each in sends:
        is_said = each.name in named or not (has_more and each.wrong)
        if each.wrong is not None and each.at_once == 1 and is_said:
            assert applies(each) is each.wrong, (said, each)
    for name in equal.removesuffix(")").split("; ") if equal else ():
        assert any(e.name == name and e.wrong is False for e in sends), (said, name)
        assert not any(e.name == name and e.wrong for e in sends), (said, name)
    numbers = re.findall(r"(?<!\w)\d+(?!\w)", said)
    if bracket and len(numbers) == 1 and " and " not in bracket:
        step = -1 if re.search(r"or (less|fewer)", said) else 1
        inner, outer = (
            meaning(re.sub(r"(?<!\w)\d+(?!\w)", str(at), said, count=1), named)
            for at in (int(bracket), int(bracket) + step)
        )
        assert inner is not None
        assert outer is not None
        at_border = [e for e in sends if inner(e) and not outer(e) and e.wrong is not None]
        assert at_border, (said, bracket)
        assert not any(each.wrong for each in at_border), (said, bracket)
    return True


def check_rates(said: str, sends: Sequence[Sent], named: Mapping[str, Body]) -> bool:
    """The counts of a sentence on rates, and its `equal` numbers."""
    told = [each for each in sends if each.wrong is not None]
    least = min(each.at_once for each in told if each.wrong)
    load = re.match(
        r"requests differed only with (\d+) or more at once \((?:(\d+): equal; )?one at a time: equal\)",
        said,
    )
    if load:
        assert all(e.at_once >= int(load[1]) for e in told if e.wrong), said
        assert any(e.at_once == int(load[1]) and e.wrong for e in told), said
        below = [e for e in told if e.at_once == int(load[2] or 1)]
        assert below, said
        assert not any(each.wrong for each in below), said
    if "one at a time: equal" in said:
        alone = [e.wrong for e in told if e.at_once == 1]
        assert alone, said
        assert not any(alone), said
    again = re.match(r"(\S+) differs in (\d+) of (\d+) sends of the same request", said)
    if again:
        of_starts = {
            (
                sum(bool(e.wrong) for e in told if e.start == start),
                sum(e.start == start for e in told),
            )
            for start in {e.start for e in sends}
            if {e.name for e in sends if e.start == start} == {again[1]}
        }
        assert (int(again[2]), int(again[3])) in of_starts, said
    match = re.search(
        r"(?:only (?P<who>[^:]+?) differed ?(?P<where>[^:]*?)|requests differed only (?P<place>[^:]+?)): (?P<n>\d+) of (?P<m>\d+) such sends, and none of (?P<k>\d+) others$",
        said,
    )
    if not match:
        assert "such sends" not in said, said
        return bool(load or again)
    parts: list[Applies | None] = []
    for each in (match["who"] or "").split(" that are also ") if match["who"] else ():
        holds = kind(re.sub(r" \(or .+\)$", "", each), named)
        parts.append(on_body(holds) if holds else None)
    where = re.sub(r" \(or .+\)$", "", match["where"] or match["place"] or "")
    parts.append(context(where, named))
    applies = all_of(parts)
    if applies is None:
        return False
    known = [e for e in told if (e.at_once >= least if least > 1 else e.at_once == 1)]
    inside = [e for e in known if applies(e)]
    assert int(match["n"]) == sum(bool(e.wrong) for e in inside), said
    assert int(match["m"]) == len(inside), said
    assert int(match["k"]) == len(known) - len(inside), said
    assert not any(e.wrong for e in known if not applies(e)), said
    return True


def check_examination(
    facts: LocalisationFacts,
    text: str,
    starts: Sequence[Sequence[Sent]],
    shown: Sequence[Sent],
    named: Mapping[str, Body],
) -> bool:
    """The counts of what the cause has foretold."""
    later = [
        e
        for lane, trial in zip(starts, facts.conditions, strict=True)
        for e in lane
        if trial.foretold and e in shown
    ]
    said = facts.cause or facts.untested
    said = re.sub(r" \(so do .*| \(.*equal.*\)$|, from about token .*", "", said or "")
    applies = meaning(said, named) if said else None
    match = re.search(
        r"foretold for (\d+) later sends?(?:, (\d+) of|: (\d+) differ and (\d+) do not)", text
    )
    if match and applies:
        differing = [e.at_once for e in later if e.wrong and applies(e)]
        other = [e.at_once for e in later if e.wrong is not None and e.wrong != applies(e)]
        assert int(match[1]) == facts.foretold == sum(e.wrong is not None for e in later), said
        assert int(match[2] or match[3]) == facts.foretold_differing == len(differing), said
        assert len(other) == facts.foretold_otherwise, said
        assert 1 not in other, said
        assert ("the order at once is not known" in text) is bool(other) is bool(match[3])
        return True
    return False


def check_trials(facts: LocalisationFacts, starts: Sequence[Sequence[Sent]]) -> set[str]:
    """What the smallest trials and the noise rest on."""
    read = set()
    ends = dict[str, list[bool]]()
    for trial, lane in zip(facts.conditions, starts, strict=True):
        for count in range(1, len(lane) + 1 if trial.at_once == 1 else 0):
            pause = trial.pause_s if count == len(lane) else 0.0
            blocks = tuple(TrialBlock(names=(e.name,)) for e in lane[:count])
            last = lane[count - 1].wrong
            if last is not None:
                ends.setdefault(words(Trial(blocks=blocks, pause_s=pause)), []).append(last)
    for label in facts.without:
        assert not any(ends.get(label, ())), label
        read.add("without")
    if facts.smallest in ends:
        assert any(ends[facts.smallest]), facts.smallest
        read.add("smallest")
    noise = re.fullmatch(r"(.+) differs in (\d+) of (\d+) fresh starts", facts.noise or "")
    if noise:
        assert (sum(ends[noise[1]]), len(ends[noise[1]])) == (int(noise[2]), int(noise[3]))
        read.add("noise")
    return read


def check(facts: LocalisationFacts, localisation: Localisation) -> set[str]:
    """Each claim of the facts and of the finding. Which of them were read."""
    bodies: dict[str, Body] = {name: e.body for name, e in localisation.requests.items()}
    named = {name: body for name, body in bodies.items() if re.fullmatch(r"r\d+", name)}
    starts = [list(sends_of(e, bodies, at)) for at, e in enumerate(facts.conditions)]
    assert [e.result for e in facts.conditions] == [
        "differs" if e.differing else "equal" if e.compared else "not tried"
        for e in facts.conditions
    ]
    every = [e for lane in starts for e in lane]
    # Of what some starts do not show, a cause is of those that do.
    shown = [e for lane in starts for e in lane if not facts.noise or any(x.wrong for x in lane)]
    read = set()
    text = str(localisation_finding(localisation, ARGV, "out").evidence)
    for said in filter(None, (facts.cause, facts.untested, *facts.rivals)):
        if check_cause(said, shown, named):
            read.add("cause")
    if facts.by_rate and check_rates(facts.by_rate, every, named):
        read.add("rates")
    assert not (facts.cause and facts.untested)
    assert ("not tested on later sends" in text) is bool(facts.untested)
    is_of_names = re.match(
        r"(the|requests with the) prompts? (and the parameters )?of|the requests r",
        facts.cause or "",
    )
    if facts.cause and not is_of_names:
        assert facts.foretold > 0, facts.cause
    if check_examination(facts, text, starts, shown, named):
        read.add("foretold")
    read |= check_trials(facts, starts)
    return read


_HOLDS: list[Callable[[Body], bool]] = [
    lambda _: True,
    lambda x: "stop" in x,
    lambda x: "seed" in x,
    lambda x: {"stop", "seed"} <= x.keys(),
    lambda x: x.get("max_tokens", 16) >= 15,
    lambda x: len(prompt(x)) > 44,
    lambda x: "the" in prompt(x),
    lambda x: x.get("max_tokens", 16) >= 12 and "stop" in x,
]
_WHERE: list[Fault] = [
    lambda _b, _x, _w: True,
    lambda b, _x, _w: len(b) >= 4,
    lambda b, _x, _w: not b,
    lambda b, x, _w: prompt(x) in map(prompt, b),
    lambda b, _x, _w: any("stop" in each for each in b),
    lambda b, _x, _w: bool(b) and "seed" in b[-1],
    lambda b, _x, _w: sum(len(prompt(each)) for each in b) >= 200,
    lambda _b, _x, w: len(w) >= 2,
    lambda _b, _x, w: len(w) >= 1,
    lambda _b, _x, w: any("seed" in each for each in w),
]


class Drawn(Struct, frozen=True):
    """A server and requests for it."""

    bodies: tuple[Body, ...]
    holds: int
    where: int
    share: float
    late: int
    unanswered: float
    seed: int
    pairs: int


def pick(chosen: random.Random, _what: str, some: Sequence[Any]) -> Any:
    return chosen.choice(list(some))


def drawn(choose: Callable[[str, Sequence[Any]], Any], seed: int) -> Drawn:
    draw = random.Random(seed)
    bodies = []
    for at in range(choose("requests", [7, 7, 12, 16])):
        body = dict(BODIES[at % 7])
        body["prompt"] = (
            body["prompt"] if at < 7 else f"{at}. " + body["prompt"][at:] + " Again"[: at % 5]
        )
        body |= {"stop": ["#"]} if draw.random() < 0.3 else {}
        body |= {"seed": draw.choice([3, 7])} if draw.random() < 0.3 else {}
        bodies.append(body)
    return Drawn(
        bodies=tuple(bodies),
        holds=choose("holds", range(len(_HOLDS))),
        where=choose("where", range(len(_WHERE))),
        share=choose("share", [1.0, 1.0, 0.6]),
        late=choose("late", [0, 0, 10]),
        unanswered=choose("unanswered", [0.0, 0.1]),
        seed=seed,
        pairs=choose("pairs", [5, 8]),
    )


def claims_of(server: Drawn) -> set[str]:
    """Localise what the server shows, and check each claim."""
    chance = random.Random(server.seed)

    def expected(before: Sequence[Body], body: Body, beside: Sequence[Body]) -> bool:
        return _HOLDS[server.holds](body) and _WHERE[server.where](before, body, beside)

    def fault(before: Sequence[Body], body: Body, beside: Sequence[Body]) -> bool:
        return expected(before, body, beside) and chance.random() < server.share

    bodies = server.bodies
    differing = [
        f"r{at}"
        for at, body in enumerate(bodies)
        if expected((*bodies[:at], *bodies[: max(0, at - 1)]), body, bodies[at + 1 : at + 4])
    ]
    changes = {} if server.share == 1 else {"differing_pairs": 12}
    of = subject(differing or ["r0"], bodies, **changes)
    search = LocalisationSearch(of)
    for _ in range(server.pairs):
        trial = search.next_trial()
        if trial is None:
            break
        right = answered(trial, search.requests, None, server.late)
        wrong = answered(trial, search.requests, fault, server.late)
        for block in right:
            for name in block:
                if chance.random() < server.unanswered:
                    block[name] = replace(block[name], answer=None, text="", answer_tokens=0)
        search.results.append(observed(trial, right, wrong))
    localisation = Localisation(
        subject=of,
        conclusion=search.conclusion(),
        results=tuple(search.told),
        requests=search.requests,
    )
    return check(localisation_facts(localisation, ARGV, "out", Path("/reports")), localisation)


@st.composite
def servers(draw: st.DrawFn) -> Drawn:
    return drawn(
        lambda label, some: draw(st.sampled_from(list(some)), label), draw(st.integers(0, 9999))
    )


@pytest.mark.nightly
@settings(max_examples=60, deadline=None)
@given(servers())
def test_no_claim_contradicts_what_starts_were_sent_and_showed(server: Drawn) -> None:
    claims_of(server)


# They cost least of those drawn so: one server differs now and then, and one has a cause.
SEEDS = (30, 34)


def test_claims_of_all_sorts_are_made_and_none_contradicts_the_trials() -> None:
    read = set[str]()
    for seed in SEEDS:
        chosen = random.Random(seed)
        read |= claims_of(drawn(partial(pick, chosen), seed))
    assert read == {"cause", "rates", "foretold", "without", "smallest"}


def cause_of(told: Sequence[tuple[Body, bool | None]], start: str) -> list[str]:
    """Those that fit one start and begin so, in words with numbers that were sent."""
    of = subject(bodies=[body for body, _ in told])
    requests = {each.id: each for each in of.requests}
    lane = [
        TrialSend(name=f"r{at}", block=at, at_once=1, wrong=wrong, said="x", length=9)
        for at, (_, wrong) in enumerate(told)
    ]
    table = SendTable([lane], requests, of.ids, {})
    made = [bracketed(each, table, {}).in_words() for each in fitting(table, len(lane))]
    return list(dict.fromkeys(each for each in made if each.startswith(start)))


PROMPTS = ("Say it now", "Tell me more of it", "What is up here", "How high is it", "Go on and on")


def test_a_number_in_brackets_is_not_that_of_a_request_without_an_answer() -> None:
    limits = ((40, True), (30, None), (10, False), (40, True), (5, False))
    told = [
        ({"prompt": text, "max_tokens": limit}, wrong)
        for text, (limit, wrong) in zip(PROMPTS, limits, strict=True)
    ]
    of = "requests with `max_tokens` 40 or more differ"
    assert cause_of(told, of)[0] == f"{of} (10: equal)"
    assert not cause_of(told, "requests with `max_tokens` 30 or more")


def test_a_number_in_brackets_is_of_a_request_of_which_all_else_holds() -> None:
    limits = (
        (40, "a", True),
        (30, None, False),
        (10, "a", False),
        (40, "a", True),
        (40, None, False),
    )
    told: list[tuple[Body, bool | None]] = [
        ({"prompt": text, "max_tokens": limit, **({"stop": stop} if stop else {})}, wrong)
        for text, (limit, stop, wrong) in zip(PROMPTS, limits, strict=True)
    ]
    of = "of the requests with `stop`, the requests with `max_tokens` 40 or more differ"
    assert cause_of(told, of) == [f"{of} (10: equal)"]
