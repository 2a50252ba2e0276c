# SPDX-License-Identifier: Apache-2.0
"""A fault is planted in simulated starts; the search must name it, and nothing that is untrue."""

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.localise.causes import Cause, contexts
from ci_doctor.correctness.localise.copies import changed_copies
from ci_doctor.correctness.localise.search import LocalisationSearch
from ci_doctor.correctness.localise.traits import CausePart, SendTable, targets, thresholds
from ci_doctor.correctness.localise.trials import (
    SentAnswer,
    Trial,
    TrialSend,
    common,
    observed,
    one_by_one,
    words,
)
from ci_doctor.correctness.localise.weights import bracketed
from ci_doctor.load.requests import Request
from tests.unit.correctness.localise.subjects import (
    BODIES,
    MIXED,
    SYSTEM,
    Body,
    Fault,
    answered,
    chat,
    prompted,
    searched,
    sends_of,
    subject,
    text,
)


def prompts(bodies: Sequence[Body]) -> list[str]:
    return [each["prompt"] for each in bodies]


def served(bodies: Sequence[Body]) -> int:
    return sum(each.get("max_tokens", 16) for each in bodies)


PLANTED: list[tuple[Sequence[str], Fault, str]] = [
    # What the request holds.
    (["r3"], lambda _b, x, _w: "harbour" in x["prompt"], "prompts with `harbour` differ"),
    (["r1"], lambda _b, x, _w: len(x["prompt"]) > 90, "prompts of 91 characters or more differ"),
    (["r4"], lambda _b, x, _w: not x["prompt"].isascii(), "prompts with a character that is not ASCII differ"),
    (["r2", "r4"], lambda _b, x, _w: x.get("max_tokens", 16) >= 30, "requests with `max_tokens` 30 or more differ"),
    (["r2"], lambda _b, x, _w: x.get("seed") == 7, "requests with `seed` 7 differ"),
    (["r5"], lambda _b, x, _w: "stop" in x, "requests with `stop` differ"),
    (["r2"], lambda _b, x, _w: len(x["prompt"]) % 16 == 0, "prompts of a multiple of 16 characters differ"),
    (["r3"], lambda _b, x, _w: x["prompt"].endswith("?"), "prompts that end with `?` differ"),
    # Which request of the start it is.
    (["r0"], lambda b, _x, _w: not b, "any request differs as the first of a start"),
    (["r2"], lambda b, _x, _w: len(b) == 2, "any request differs as the 3rd request of a start"),
    (["r5", "r6"], lambda b, _x, _w: len(b) >= 5, "any request differs from the 6th request of a start on"),
    (["r0", "r2"], lambda b, _x, _w: len(b) % 2 == 0, "any request differs as every 2nd request of a start (1, 3, 5, …)"),
    (["r4"], lambda b, _x, _w: served(b) >= 81, "any request differs once a start has answered"),
    # What the start got before, or gets beside it.
    (["r0"], lambda b, x, _w: x["prompt"] in prompts(b), "any request differs if the same prompt came before"),
    (["r6"], lambda b, x, _w: any(each != x["prompt"] and each[:36] == x["prompt"][:36] for each in prompts(b)), "after another prompt that shares its first"),
    (["r1"], lambda b, x, _w: bool(b) and len(x["prompt"]) > max(map(len, prompts(b))), "any request differs when its prompt is longer than each one before"),
    (["r2"], lambda b, x, _w: bool(b) and len(b[-1]["prompt"]) > len(x["prompt"]) + 20, "any request differs right after a prompt that is longer by"),
    (["r3", "r4", "r5"], lambda b, _x, _w: sum(each.get("max_tokens", 16) >= 20 for each in b) >= 2, "any request differs after 2 requests with `max_tokens` 20 or more"),
    (["r0"], lambda b, x, _w: x in b, "any request differs if the same prompt came before with the same parameters"),
    (["r0"], lambda b, x, _w: prompts(b).count(x["prompt"]) == 1, "any request differs when its prompt comes for the second time"),
    (["r5"], lambda b, x, _w: "stop" in x and not any("stop" in each for each in b), "any request differs as the first of the requests with `stop` in a start"),
    (["r5"], lambda b, x, _w: "stop" in x and sum("stop" in each for each in b) % 2 == 1, "any request differs as every 2nd of the requests with `stop` in a start"),
    (["r3"], lambda b, x, _w: "harbour" in x["prompt"] and BODIES[1]["prompt"] in prompts(b), "prompts with `harbour` differ after r1"),
    (["r3"], lambda b, x, _w: "harbour" in x["prompt"] and {BODIES[0]["prompt"], BODIES[2]["prompt"]} <= set(prompts(b)), "prompts with `harbour` differ after r0 and r2"),
    (["r0"], lambda _b, _x, w: len(w) >= 2, "any request differs if 3 or more requests are under way at once"),
    (["r5"], lambda _b, x, w: x["prompt"] == BODIES[5]["prompt"] and BODIES[2] in w, "requests with the prompt of r5 differ at once with requests with the prompt and the parameters of r2"),
]  # fmt: skip


@pytest.mark.gate(4)
@pytest.mark.parametrize(
    ("differing", "fault", "cause"), PLANTED, ids=[each[2] for each in PLANTED]
)
def test_the_cause_of_a_planted_fault_is_named(
    differing: Sequence[str], fault: Fault, cause: str
) -> None:
    conclusion = searched(subject(differing), fault).conclusion()
    assert conclusion.cause is not None
    assert cause in conclusion.cause, conclusion
    assert conclusion.shown, conclusion


def texts(bodies: Sequence[Body]) -> list[str]:
    return [text(each) for each in bodies]


def continues(before: Sequence[Body], body: Body, _with: Sequence[Body]) -> bool:
    messages = body.get("messages", [])
    earlier = [each["messages"] for each in before if "messages" in each]
    return any(each == messages[: len(each)] and len(each) < len(messages) for each in earlier)


def of_shop(body: Body) -> bool:
    return bool(body.get("messages", [0])[0] == SYSTEM)


# Of chats and many parameters: what each part of the sentence names was left out once.
MIXED_FAULTS: list[tuple[Sequence[str], Fault, str]] = [
    (["r6", "r11", "r12"], lambda _b, x, _w: any(key in x for key in ("logprobs", "min_tokens", "logit_bias")), "requests with `logit_bias`, `logprobs` or `min_tokens` differ"),
    (["r2"], continues, "any request differs after a shorter prompt with which its own begins"),
    (["r5"], lambda b, x, _w: text(x) not in texts(b) and any(each[:250] == text(x)[:250] for each in texts(b)), "any request differs when its prompt comes for the first time and after a prompt that shares its first"),
    (["r1", "r2"], lambda b, x, _w: of_shop(x) and sum(map(of_shop, b)) >= 2, "of r1 differ from the 3rd of them in a start on"),
    (["r9", "r10"], lambda _b, x, _w: any("\n" in each for each in x.get("stop", [])), "requests with a new line in `stop` differ"),
    (["r11"], lambda _b, x, _w: any(ord(each) > 0xFFFF for each in text(x)), "prompts with a character of four bytes (emoji) differ"),
    (["r7"], lambda b, _x, _w: bool(b) and b[-1].get("max_tokens", 16) < 20, "any request differs right after requests "),
    (["r8", "r9", "r10"], lambda b, _x, _w: any(each.get("n", 1) > 1 for each in b[-3:]), "any request differs as one of the 3 requests after requests with `n` 3 or more"),
    (["r6", "r7", "r8", "r9", "r10"], lambda b, _x, _w: 6 <= len(b) <= 10, "any request differs as the 7th to the 11th request of a start"),
    (["r1", "r2"], lambda b, x, _w: of_shop(x) and 1 <= sum(map(of_shop, b)) <= 5, "as the 2nd to the 6th of them in a start"),
    (["r0", "r1"], lambda _b, x, w: "messages" in x and len(w) >= 3, "chats differ if 4 or more requests are under way at once"),
    (["r3"], lambda _b, x, w: "stop" in x and any("logprobs" in each for each in w), "requests with `stop` differ at once with requests with `logprobs`"),
    (["r0"], lambda b, x, _w: text(x) in texts(b) and texts(b)[::-1].index(text(x)) >= 8, "others came since the same prompt"),
    (["r7"], lambda _b, x, _w: "seed" in x and x.get("n", 1) > 1, "of the requests with `seed`, the requests with `n` 3 or more differ"),
]  # fmt: skip


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("differing", "fault", "cause"), MIXED_FAULTS, ids=[each[2] for each in MIXED_FAULTS]
)
def test_the_cause_of_a_fault_among_chats_and_parameters_is_named(
    differing: Sequence[str], fault: Fault, cause: str
) -> None:
    conclusion = searched(subject(differing, MIXED), fault).conclusion()
    assert conclusion.cause is not None, conclusion
    assert cause in conclusion.cause, conclusion


def size(body: Body) -> int:
    return max(1, len(text(body)) // 4)


def another(key: str, before: Sequence[Body], body: Body) -> bool:
    return any(each.get(key) != body.get(key) for each in before)


def slot(body: Body) -> int:
    return size(body) % 12


TALKS = (*BODIES, *({**each, "stream": True} for each in BODIES[5:]))
SERVED = tuple({**each, "model": "ab"[number % 5 > 2]} for number, each in enumerate(BODIES))
ADAPTERS = (
    *({**each, "model": "ab"[number % 2]} for number, each in enumerate(BODIES[:4])),
    *BODIES[4:],
)
EDGES = (*BODIES, {"prompt": "Zu dieser Zeit äße er Käse", "max_tokens": 20})
# What a request has to do with others before it and beside it, and what several of its sides come to.
RELATED: list[tuple[Sequence[Body], Sequence[str], Fault, str]] = [
    (SERVED, ["r3"], lambda b, x, _w: another("model", b[-1:], x), "right after a request with another `model`"),
    (SERVED, ["r3"], lambda b, x, _w: len({each["model"] for each in [*b, x]}) > 1, "after a request with another value of `model`"),
    (BODIES, ["r1", "r4"], lambda _b, x, w: sum(map(size, [*w, x])) > 50, "tokens or more in all are under way at once"),
    (BODIES, ["r2", "r4"], lambda _b, x, _w: size(x) + x.get("max_tokens", 16) > 39, "requests whose prompt and token limit come to 4"),
    (BODIES, ["r0"], lambda b, x, _w: size(x) % 8 > 0 and x["prompt"] in prompts(b), "prompts of no multiple of 8 tokens differ if the same prompt came before"),
    (SERVED, ["r5", "r6"], lambda b, x, _w: another("model", b[-1:], x) and x["model"] in [each["model"] for each in b], "after a request with the same `model` and right after a request with another `model`"),
    (BODIES, ["r4", "r6"], lambda b, x, _w: any(slot(each) == slot(x) and each["prompt"] != x["prompt"] for each in b), "after another prompt of as many tokens, modulo 12"),
    (BODIES, ["r3"], lambda b, x, _w: len({*prompts(b), x["prompt"]}) % 4 == 0, "while a start has got 4, 8, 12, … different prompts"),
    (TALKS, ["r8"], lambda b, x, _w: any("stream" in each and each["prompt"][:36] == x["prompt"][:36] for each in b), "after requests with `stream` that share its first"),
    (TALKS, ["r8"], lambda b, x, _w: len(x["prompt"]) > 36 and x["prompt"][:36] in [each[:36] for each in prompts(b[-1:])], "any request differs right after requests that share its first"),
    (ADAPTERS, ["r3"], lambda _b, x, w: "model" in x and any(each.get("model", x["model"]) != x["model"] for each in w), "differs at once with a request that has another value of `model`"),
    (BODIES, ["r4", "r5", "r6"], lambda b, x, _w: sum(map(len, {*prompts(b), x["prompt"]})) > 250, "once a start has got different prompts of"),
    (BODIES, ["r2"], lambda b, x, _w: bool(b) and size(x) < size(b[0]), "in a start whose first request was one of"),
    (BODIES, ["r0"], lambda b, x, _w: x["prompt"] in prompts(b) and max([0, *map(size, b[len(b) - prompts(b)[::-1].index(x["prompt"]):])]) > 20, "if a prompt of"),
    (BODIES, ["r6"], lambda b, x, _w: any(common(x["prompt"], each) >= len(x["prompt"]) - 8 for each in prompts(b)), "are the beginning of one before"),
    (EDGES, ["r7"], lambda _b, x, _w: any(each & 0xC0 == 0x80 for each in x["prompt"].encode()[16::16]), "prompts with a character across byte 16 or a multiple of it"),
]  # fmt: skip


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("bodies", "differing", "fault", "cause"), RELATED, ids=[each[3] for each in RELATED]
)
def test_the_cause_of_a_fault_of_relations_and_sums_is_named(
    bodies: Sequence[Body], differing: Sequence[str], fault: Fault, cause: str
) -> None:
    conclusion = searched(subject(differing, bodies, concurrency=len(bodies)), fault).conclusion()
    assert conclusion.cause is not None, conclusion
    assert cause in conclusion.cause, conclusion


@pytest.mark.nightly
def test_a_sign_that_no_copy_lacked_is_not_named() -> None:
    """An earlier turn of the chat holds 30: copies change each message, not the last one alone."""
    conclusion = searched(subject(["r2"], MIXED), continues).conclusion()
    named = " ".join((conclusion.cause or "", *conclusion.rivals))
    assert "`0`" not in named
    assert "`3`" not in named


@pytest.mark.nightly
def test_a_difference_of_some_starts_is_named_with_how_many_show_it() -> None:
    """A start shows it or not, from its beginning; where it does, the copies of that start count."""
    told = 0
    for seed in range(6):
        chance = random.Random(seed)
        shows: list[bool] = []

        def fault(before: Sequence[Body], body: Body, _with: Sequence[Body]) -> bool:
            if not before:
                shows.append(chance.random() < 0.7)  # noqa: B023 - called before the next one is made
            return "seed" in body and shows[-1]  # noqa: B023

        conclusion = searched(subject(["r7"], MIXED), fault).conclusion()
        # What no examination has tested is told in weaker words.
        tested = conclusion.cause if conclusion.is_tested else None
        assert tested in {None, "requests with `seed` 11 differ", "requests with `seed` differ"}
        if conclusion.noise:
            assert not all(shows)
            count, of = re.findall(r"(\d+) of (\d+) fresh starts", conclusion.noise)[0]
            assert 0 < int(count) < int(of)
            told += 1
    assert told


@pytest.mark.nightly
def test_where_no_cause_fits_what_comes_before_is_divided() -> None:
    """Four certain requests must come before it: no cause says that."""

    def fault(before: Sequence[Body], body: Body, _with: Sequence[Body]) -> bool:
        needed = {text(MIXED[place]) for place in (0, 1, 4, 6)}
        return body == MIXED[8] and needed <= set(texts(before))

    conclusion = searched(subject(["r8"], MIXED), fault, pairs=22).conclusion()
    (smallest,) = conclusion.shown
    assert {"r0", "r1", "r4", "r6", "r8"} <= set(smallest.names)
    assert len(smallest.names) < 9, conclusion


def test_a_label_names_whose_value_it_is_and_never_cuts_it() -> None:
    bias = {str(number): 1 for number in range(20)}
    bodies = [*MIXED, {"prompt": "Is it cold there?", "max_tokens": 30, "logit_bias": bias}]
    search = searched(subject(["r0"], bodies), lambda _b, x, _w: x == bodies[0], pairs=3)
    names = [each for each in search.requests if "`logit_bias` of" in each]
    assert {each for each in names if each.startswith("r0 ")} == {"r0 with the `logit_bias` of r13"}


@pytest.mark.nightly
def test_a_cause_is_tried_in_fresh_starts_with_and_without_each_part_of_it() -> None:
    def after_two(before: Sequence[Body], body: Body, _with: Sequence[Body]) -> bool:
        got = set(prompts(before))
        return "harbour" in body["prompt"] and {BODIES[0]["prompt"], BODIES[2]["prompt"]} <= got

    search = searched(subject(["r3"]), after_two, pairs=12)
    conclusion = search.conclusion()
    assert [words(each) for each in conclusion.shown] == ["r3 after r0 and r2"]
    assert sorted(words(each) for each in conclusion.vanished) == [
        "r3 after r0",
        "r3 after r2",
        "r3, x for `harbour` after r0 and r2",
    ]
    made = [each.trial for each in search.results]
    assert one_by_one(["r0", "r2", "r3"]) in made


@pytest.mark.nightly
def test_a_cache_that_ignores_a_parameter_is_named_by_it() -> None:
    def other_limit(before: Sequence[Body], body: Body, _with: Sequence[Body]) -> bool:
        same = [each for each in before if each["prompt"] == body["prompt"]]
        return another("max_tokens", same, body)

    of = subject(["r1", "r7"], (*BODIES, {**BODIES[1], "max_tokens": 33}))
    cause = searched(of, other_limit).conclusion().cause
    assert cause == ("any request differs if the same prompt came before with another `max_tokens`")


def test_what_requests_hold_is_named_only_if_a_copy_without_it_was_equal() -> None:
    """Of two keys that must come together, none is the cause, and neither is a word of the prompt."""
    both = {"stop", "max_tokens"}
    conclusion = searched(subject(["r5"]), lambda _b, x, _w: both <= x.keys()).conclusion()
    cause = "requests with `max_tokens` and `stop` differ (only `stop` ['#'] was sent)"
    assert conclusion.cause == cause
    assert [words(each) for each in conclusion.vanished] == ["r5 without `max_tokens` alone"]


def test_a_prompt_is_no_cause_if_a_copy_with_it_was_equal() -> None:
    both = {"stop", "max_tokens"}
    search = searched(
        subject(["r5"]), lambda _b, x, _w: both <= x.keys() and len(x["prompt"]) >= 20
    )
    cause = search.conclusion().cause
    assert cause is not None
    assert "requests with the prompt of r5 differ" not in cause


def test_a_request_that_never_differs_in_groups_is_none_of_those_that_do() -> None:
    """Its prompt is that of one that does."""
    of = subject(["r0", "r3", "r5"], (*BODIES, {**BODIES[3], "seed": 99}))
    differing = [BODIES[place] for place in (0, 3, 5)]
    cause = searched(of, lambda _b, x, w: bool(w) and x in differing).conclusion().cause
    assert cause == "the requests r0, r3, r5 differ if 2 or more requests are under way at once"


def test_an_equal_answer_that_ends_before_a_difference_would_show_tells_nothing() -> None:
    """Copies with fewer tokens of answer than come before the fault are equal, and no contradiction."""
    of = subject(["r4"])
    search = searched(of, lambda _b, x, _w: not x["prompt"].isascii(), late=12)
    conclusion = search.conclusion()
    assert conclusion.cause == "prompts with a character that is not ASCII differ"
    assert conclusion.shorts


@pytest.mark.nightly
def test_an_equal_answer_of_a_request_that_differed_in_the_run_is_never_too_short() -> None:
    of = subject(["r1", "r3"])
    search = searched(of, lambda _b, body, _w: body == of.requests[1].body, late=18)
    sends = [each for result in search.told for each in result.sends]
    assert any(each.is_short for each in sends)
    assert not any(each.is_short for each in sends if each.name == "r3")


@pytest.mark.parametrize(("wrong", "is_named"), [("r0", False), ("r0 r3", True)])
def test_a_number_or_none_is_named_only_if_both_have_differed(wrong: str, is_named: bool) -> None:
    """A default of the server is not the greatest number."""
    of = subject(["r0"], [{"prompt": f"p{n}", **({"top_k": n} if n else {})} for n in range(4)])
    requests = {each.id: each for each in of.requests}
    lane = [TrialSend(name=name, block=0, at_once=1, wrong=name in wrong) for name in requests]
    parts = targets(SendTable([lane], requests, requests, {}), [])
    said = "requests with `top_k` 3 or more or none"
    assert any(each.words == said for each in parts) is is_named


@pytest.mark.nightly
def test_where_every_long_answer_differs_the_place_is_named() -> None:
    search = searched(subject(["r1", "r2", "r4"]), lambda _b, _x, _w: True, late=18)
    cause = search.conclusion().cause
    assert cause == "any request differs, from about token 19 of its answer on"


def test_time_is_no_cause_unless_it_passed_without_requests() -> None:
    """A start that tells no tokens fails after so many; it takes no time to answer but then."""

    def full(before: Sequence[Body], _body: Body, _with: Sequence[Body]) -> bool:
        told = (len(each["prompt"]) + 50 * int(each.get("max_tokens", 16)) for each in before)
        return sum(told) >= 6000

    bodies = [{**each, "stream": True} for each in BODIES]
    conclusion = searched(subject(["r4"], bodies), full).conclusion()
    said = " ".join((conclusion.cause or "", *conclusion.rivals))
    assert "past its first" not in said
    assert "without a request" not in said


def test_time_that_no_idle_start_has_shown_is_no_cause_whatever_it_foretells() -> None:
    """What grows with each new prompt grows with time; a start that was left idle never differed."""

    def full(before: Sequence[Body], body: Body, _with: Sequence[Body]) -> bool:
        return sum(map(len, {*prompts(before), body["prompt"]})) > 250

    def slow(trial: Trial, fault: Fault | None) -> list[dict[str, SentAnswer]]:
        return [
            {name: replace(one, at_s=10 * one.at_s) for name, one in each.items()}
            for each in answered(trial, search.requests, fault)
        ]

    search = LocalisationSearch(subject(["r4", "r5", "r6"], concurrency=1, passes=1))
    while len(search.results) < 8 and (trial := search.next_trial()) is not None:
        search.results.append(observed(trial, slow(trial, None), slow(trial, full)))
    conclusion = search.conclusion()
    assert conclusion.cause is not None
    assert "once a start has got different prompts of 66 tokens" in conclusion.cause
    assert not conclusion.rivals


def test_the_first_seconds_of_a_start_are_a_cause_where_they_passed_without_requests() -> None:
    def timed(trial: Trial, until_s: float) -> list[dict[str, SentAnswer]]:
        right = answered(trial, search.requests, None)
        wrong = answered(trial, search.requests, lambda *_: True)
        made = []
        for at, blocks in enumerate(zip(right, wrong, strict=True)):
            at_s = 0.2 * at + trial.pause_s * (at == len(right) - 1)
            block = blocks[at_s < until_s]
            made.append({name: replace(each, at_s=at_s) for name, each in block.items()})
        return made

    search = LocalisationSearch(subject([f"r{at}" for at in range(5)], concurrency=1, passes=1))
    while len(search.results) < 8 and (trial := search.next_trial()) is not None:
        search.results.append(observed(trial, timed(trial, 0.0), timed(trial, 0.9)))
    assert "in about the first " in (search.conclusion().cause or "")


def test_what_every_request_held_with_one_value_is_excepted() -> None:
    for value in (0, 1):
        bodies = [{**each, "temperature": value} for each in BODIES]
        search = searched(subject(["r1"], bodies), lambda b, _x, _w: bool(b))
        after = search.conclusion().cause or ""
        assert after.endswith(f" (only `temperature` {value} was sent)"), after


@pytest.mark.nightly
def test_a_value_that_only_a_request_beyond_the_sent_ones_has_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A trial leaves out some of many requests; changed copies take values of all."""
    monkeypatch.setattr("ci_doctor.correctness.localise.shown.MOST_NAMES", 5)
    bodies: list[Body] = [{"prompt": f"Question {at} of many", "max_tokens": 8} for at in range(8)]
    bodies[7] = {**bodies[7], "n": 3}
    search = searched(subject(["r0"], bodies), lambda b, _x, _w: any("n" in each for each in b))
    cause = search.conclusion().cause
    assert cause == "any request differs after requests with `n` (only `n` 3 was sent)"


def test_a_prompt_without_a_shared_beginning_is_no_number_of_tokens_left() -> None:
    nine = "one two three four five six seven eight nine"
    prompts_of = {
        "a": f"{nine} ten",
        "b": f"{nine} eleven",
        "c": "Quite another text of ten words that begins like none",
    }
    requests = prompted("abc")
    for name, prompt in prompts_of.items():
        requests[name] = replace(requests[name], body={"prompt": prompt})
    lane = [
        replace(each, prompt_tokens=10)
        for each in sends_of(("a", False, "x"), ("c", False, "x"), ("b", True, "x"))
    ]
    table = SendTable([lane], requests, requests, {})
    target = CausePart("any", "any request", 0, -1)
    parts = [each for each in contexts(table, ()) if each.family == "rest"]
    assert parts
    for each in parts:
        said = bracketed(Cause(target=target, context=each), table, {}).in_words()
        assert "equal" not in said, said


def test_a_number_is_measured_among_what_the_cause_says_and_not_by_copies_beside_it() -> None:
    lane = sends_of(("a", False, "x"), ("b", True, "x"), ("c", False, "x"), ("d", True, "x"))
    table = SendTable([lane], prompted("abcd"), "acd", {})
    parts = thresholds([1, 2, 3, 4], "size", "from {} on", 1)
    cause = Cause(
        target=CausePart("any", "any request", 0, -1),
        context=next(each for each in parts if each.least == 4),
    )
    measured = bracketed(cause, table, {"b": "a"}).context
    assert (measured.least, measured.below) == (4, 3)


def test_a_copy_that_streams_asks_for_its_tokens() -> None:
    bodies = [*BODIES, {"prompt": "Go on.", "max_tokens": 24, "stream": True}]
    of = subject(["r2"], bodies)
    copies = [each.request for each in changed_copies(of.requests[2], of)]
    (streamed,) = [each for each in copies if each.body.get("stream")]
    assert streamed.body["stream_options"] == {"include_usage": True}


def test_a_sum_with_an_unknown_part_may_lie_on_either_side() -> None:
    requests = prompted("abc")
    tokens = (("a", 10), ("b", 0), ("c", 10), ("a", 10))
    lane = [TrialSend(name=name, block=0, at_once=1, prompt_tokens=n) for name, n in tokens]
    parts = list(contexts(SendTable([lane], requests, requests, {}), ()))
    sums = {each.least: each.unsure for each in parts if each.family == "prompt tokens"}
    # Before the third came 10 tokens and unknown ones, before the fourth 20 and these.
    assert sums == {10: 0, 20: 0b0100}


@pytest.mark.nightly
def test_a_place_in_so_many_is_no_second_condition() -> None:
    """The same prompt came first with another value; that it was an even place was chance."""
    of = subject(["r7"], (*BODIES, {**BODIES[1], "model": "lora"}))

    def of_another(before: Sequence[Body], body: Body, _with: Sequence[Body]) -> bool:
        owner = next((each for each in before if each["prompt"] == body["prompt"]), body)
        return owner.get("model") != body.get("model")

    cause = searched(of, of_another).conclusion().cause
    assert cause == "any request differs if the same prompt came first with another `model`"


@pytest.mark.nightly
def test_what_came_since_is_told_in_the_unit_that_fits_or_in_each_that_does() -> None:
    def tokens_since(before: Sequence[Body], body: Body, _with: Sequence[Body]) -> bool:
        if body["prompt"] not in prompts(before):
            return False
        since = before[len(before) - prompts(before)[::-1].index(body["prompt"]) :]
        return sum(map(size, since)) >= 60

    conclusion = searched(subject(["r0"]), tokens_since).conclusion()
    said = (conclusion.cause or "", *conclusion.rivals)
    assert any("tokens or more came since the same prompt" in each for each in said), conclusion


@pytest.mark.nightly
def test_the_role_of_a_message_and_the_tokens_of_a_prompt_are_named() -> None:
    def answered_before(_b: Sequence[Body], body: Body, _w: Sequence[Body]) -> bool:
        return any(each["role"] == "assistant" for each in body.get("messages", []))

    cause = searched(subject(["r2"], MIXED), answered_before).conclusion().cause
    assert cause == "chats with a message of the role assistant differ"

    search = searched(subject(["r4", "r5"], MIXED), lambda _b, x, _w: size(x) > 60)
    cause = search.conclusion().cause or ""
    assert re.fullmatch(r"prompts of \d+ tokens or more differ \(\d+: equal\)", cause)


@pytest.mark.nightly
def test_numbers_end_at_the_nearest_ones_that_were_equal_and_differed() -> None:
    def shares(before: Sequence[Body], body: Body, _with: Sequence[Body]) -> bool:
        prompt = body["prompt"]
        return len(prompt) >= 20 and any(each[:20] == prompt[:20] for each in prompts(before))

    cause = searched(subject(["r6"]), shares, pairs=12).conclusion().cause or ""
    assert re.search(r"shares its first 2[01] characters \(19: equal\)$", cause), cause


@pytest.mark.nightly
def test_the_later_of_two_with_one_beginning_differs_at_once_with_the_other() -> None:
    def later(_before: Sequence[Body], body: Body, beside: Sequence[Body]) -> bool:
        seen = [each for each in _before[-len(beside) :] if each in beside] if beside else []
        return any(each[:30] == body["prompt"][:30] for each in prompts(seen))

    conclusion = searched(subject(["r6"]), later).conclusion()
    assert conclusion.cause is not None, conclusion
    assert "at once with a request that shares its first" in conclusion.cause


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("keys", "cause"),
    [
        (("stop", "max_tokens", "temperature", "top_k"), "the requests r4, r5 differ (so do some changed copies) (equal: "),
        (("stop", "max_tokens", "temperature"), "requests with `max_tokens`, `stop` and `temperature` differ"),
    ],
)  # fmt: skip
def test_three_kinds_at_once_are_named_and_of_more_the_equal_copies_stand_as_facts(
    keys: Sequence[str], cause: str
) -> None:
    bodies = [{**each, "temperature": 0, "top_k": 5} for each in BODIES]
    bodies[4] = {**bodies[4], "stop": ["~"]}
    search = searched(subject(["r4", "r5"], bodies), lambda _b, x, _w: set(keys) <= x.keys())
    conclusion = search.conclusion()
    assert {"r4 without `stop`", "r4 without `temperature`"} <= set(conclusion.copies), conclusion
    assert conclusion.cause is not None
    assert conclusion.cause.startswith(cause)


@pytest.mark.gate(2)
@pytest.mark.parametrize("seed", range(6))
def test_answers_that_differ_by_chance_have_no_cause(seed: int) -> None:
    chance = random.Random(seed)
    conclusion = searched(subject(), lambda _b, _x, _w: chance.random() < 0.3).conclusion()
    assert conclusion.cause is None, conclusion


def test_what_never_differs_again_has_no_cause_and_needs_three_pairs() -> None:
    search = searched(subject(), lambda _b, _x, _w: False)
    assert search.conclusion().cause is None
    # Alone, all one at a time, and as the run had them.
    assert [each.trial.at_once for each in search.results] == [1, 1, 4]


@pytest.mark.nightly
def test_one_start_that_differs_once_proves_no_place() -> None:
    starts: list[int] = []

    def only_then(before: Sequence[Body], _body: Body, _with: Sequence[Body]) -> bool:
        starts.extend([1] if not before else [])
        return len(starts) == 1 and len(before) == 4

    assert searched(subject(), only_then).conclusion().cause is None


def test_parameters_are_tried_in_the_order_in_which_they_were_sent() -> None:
    """Of causes that cost as much the first one is named: not by the order of a set of texts."""
    requests = {
        name: Request(id=name, path="/v1/completions", body={"prompt": name, "seed": seed}, line=1)
        for name, seed in zip("efdcab", (5, 3, 6, 1, 4, 2), strict=True)
    }
    lane = [TrialSend(name=name, block=0, at_once=1) for name in requests]
    parts = targets(SendTable([lane], requests, requests, {}), [])
    seeds = [part.words.split()[-1] for part in parts if part.family.startswith("seed=")]
    assert seeds == ["5", "3", "6", "1", "4", "2"]


LOADED: tuple[dict[str, Any], ...] = tuple(
    {"prompt": f"Tell me of the number {place}.", "max_tokens": 20} for place in range(32)
)


def every_fourth(**more: Any) -> list[dict[str, Any]]:
    return [{**each, **(more if place % 4 == 1 else {})} for place, each in enumerate(LOADED)]


@pytest.mark.nightly
def test_what_differs_among_many_at_once_now_and_then_is_bracketed_by_the_sizes_of_groups() -> None:
    """Which requests are under way at an arrival differs from what the client sends."""
    chance = random.Random(0)

    def fault(_b: Sequence[Body], body: Body, beside: Sequence[Body]) -> bool:
        return len(beside) >= 7 and "logprobs" in body and chance.random() < 0.3

    differing = [f"r{place}" for place in range(1, 32, 4)]
    of = subject(differing, every_fourth(logprobs=1), concurrency=16)
    conclusion = searched(of, fault).conclusion()
    assert "`logprobs`" not in (conclusion.cause or ""), conclusion
    said = r"requests differed only with (\d+) or more at once \((\d+): equal; one at a time: equal\)(.*)"
    parts = re.fullmatch(said, conclusion.by_rate)
    assert parts, conclusion
    assert int(parts[2]) < 8 <= int(parts[1])
    assert parts[3].startswith(", and only requests with `logprobs` differed: "), conclusion


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (lambda x: isinstance(x.get("prompt"), list) and isinstance(x["prompt"][0], int), "prompts of token ids differ"),
        (lambda x: isinstance(x.get("prompt"), list) and isinstance(x["prompt"][0], str), "requests with several prompts differ"),
        (lambda x: isinstance(x.get("messages", [{}])[-1].get("content"), list), "chats with a message in parts differ"),
        (lambda x: x.get("messages", [{}])[-1].get("role") == "assistant", "chats whose last message is of the role assistant differ"),
    ],
)  # fmt: skip
def test_the_form_of_a_prompt_is_named(fault: Callable[[Body], bool], cause: str) -> None:
    shown = {"role": "user", "content": [{"type": "text", "text": "What is it?"}]}
    bodies = [
        *MIXED[:6],
        {"prompt": [7, 3, 9, 4, 1], "max_tokens": 30},
        {"prompt": [8, 2, 6, 5, 2, 2, 3], "max_tokens": 25},
        {"prompt": ["A boat", "A rope"], "max_tokens": 31},
        {"messages": [shown], "max_tokens": 29},
        chat("Write to the harbour.", "Dear Sir,"),
    ]
    differing = [f"r{at}" for at, body in enumerate(bodies) if fault(body)]
    conclusion = searched(subject(differing, bodies), lambda _b, x, _w: fault(x)).conclusion()
    assert conclusion.cause == cause, conclusion


def test_a_word_that_only_answers_which_differ_hold_is_named() -> None:
    requests = {
        each.id: each for each in subject(bodies=[{"prompt": str(at)} for at in range(16)]).requests
    }
    said = [
        f"{at} the cat saw a naïve dog" if at < 4 else f"{at} the cat saw a dog" for at in range(16)
    ]

    def words_named(wrong: int) -> list[str]:
        lane = sends_of(*((f"r{at}", at < wrong, each) for at, each in enumerate(said)))
        table = SendTable([lane], requests, set(requests), {})
        of = [each for each in targets(table, table.wrong_names) if each.mask == table.wrong]
        return [each.words for each in of if "answers hold" in each.words]

    assert words_named(4)[0] == "requests whose answers hold `naïve`"
    # Of few answers any word is in all by chance.
    assert words_named(1) == []


@pytest.mark.nightly
def test_the_smallest_group_that_differs_is_named_and_not_the_largest() -> None:
    """The place in a group decides: no condition of requests fits."""
    chance = random.Random(0)
    bodies = [{"prompt": f"Say {at} to the sea", "max_tokens": 9} for at in range(24)]
    search = searched(
        subject(bodies=bodies, concurrency=24),
        lambda _b, _x, w: len(w) >= 5 and chance.random() < 0.2,
    )
    if search.conclusion().cause is None:
        (smallest,) = search.conclusion().shown
        groups = [block for each in search.told for block in each.trial.blocks if block.at_once > 1]
        wrong = [
            len(each.trial.blocks[send.block].names)
            for each in search.told
            for send in each.differing
        ]
        assert len(smallest.blocks[0].names) == min(wrong) < max(len(each.names) for each in groups)


def test_what_one_request_shows_now_and_then_is_said_with_what_only_such_requests_hold() -> None:
    bodies = every_fourth(stream=True, stream_options={"include_usage": True})
    streams = [f"r{place}" for place in range(1, 32, 4)]
    chance = random.Random(0)

    def fault(_b: Sequence[Body], body: Body, _w: Sequence[Body]) -> bool:
        return "stream" in body and chance.random() < 0.4

    conclusion = searched(subject(streams, bodies, differing_pairs=12), fault).conclusion()
    assert conclusion.cause is None, conclusion
    assert re.fullmatch(
        r"r1 differs in \d+ of \d+ sends of the same request: at random, or by what no request "
        r"shows, and only requests with `stream` differed: \d+ of \d+ such sends, and none of \d+ others",
        conclusion.by_rate,
    ), conclusion


@pytest.mark.nightly
def test_names_stand_with_the_copies_that_lack_a_whole_parameter_and_were_equal_in_its_context() -> (
    None
):
    """No cause says what a server counts in its own units; that the parameter is needed is known."""

    def again(before: Sequence[Body], body: Body, _w: Sequence[Body]) -> bool:
        beginnings = {each["prompt"][: 9 + len(each["prompt"]) % 5] for each in before}
        return "stop" in body and any(body["prompt"].startswith(each) for each in beginnings)

    bodies = [
        {**each, "stop": ["#", "~", "|"]} if n in {0, 2} else each for n, each in enumerate(BODIES)
    ]
    conclusion = searched(subject(["r0", "r2"], bodies), again).conclusion()
    said = conclusion.cause or ""
    assert "`stop`" in said, conclusion
    assert "alone in `stop`" not in said.partition("(equal: ")[2].split(";")[0], conclusion
