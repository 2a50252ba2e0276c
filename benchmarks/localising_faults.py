# SPDX-License-Identifier: Apache-2.0
"""Faults that servers of LLMs had, as conditions of a request and of what came before it or is under way with it.

KNOWN are the kinds that `ci_doctor.correctness.localise` was written with; those of localising_unseen.py were written
before anybody looked how it would name them. `composed` draws any condition that the words of this module can say.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from localising_server import Body, Fault, View, size_of, text_of

from ci_doctor.correctness.localise.trials import common, pieces


class Condition(NamedTuple):
    """In words, and the requests that it holds for (True), or from which token of their answers on.

    `place` is that token, if it is one for all; None if any will do.
    """

    words: str
    holds: Fault
    place: int | None = None

    def __and__(self, other: "Condition") -> "Condition":
        words = ", ".join(filter(None, [self.words, other.words]))
        return Condition(words, lambda v: bool(self.holds(v) and other.holds(v)))


class Like(NamedTuple):
    """What a body is like beside the one that a server looks at: itself, an earlier one, or one under way."""

    words: str
    holds: Callable[[View, Body], bool]

    def __and__(self, other: "Like") -> "Like":
        words = " and ".join(filter(None, [self.words, other.words]))
        return Like(words, lambda v, each: self.holds(v, each) and other.holds(v, each))

    def of(self, view: View, bodies: Sequence[Body]) -> list[Body]:
        return [each for each in bodies if self.holds(view, each)]


# --- what a body is like ---

ANY = Like("", lambda _, _each: True)
SAME = Like("with its prompt", lambda v, each: text_of(each) == text_of(v.body))
ANOTHER = Like("with another prompt", lambda v, each: text_of(each) != text_of(v.body))
GREEDY = Like("at temperature 0", lambda _, each: not each.get("temperature"))
SAMPLED = Like("that is sampled", lambda _, each: bool(each.get("temperature")))
SEEDED = Like("that is sampled", lambda _, each: bool(each.get("temperature")) and "seed" in each)
SIGNS = Like("with signs beyond ASCII", lambda _, each: not text_of(each).isascii())
QUESTION = Like("with a prompt that ends with ?", lambda _, each: text_of(each).endswith("?"))


def has(*keys: str) -> Like:
    return Like(f"with `{'` and `'.join(keys)}`", lambda _, each: set(keys) <= each.keys())


def lacks(key: str) -> Like:
    return Like(f"without `{key}`", lambda _, each: key not in each)


def valued(key: str, least: int) -> Like:
    return Like(f"with `{key}` {least} or more", lambda _, each: each.get(key, 0) >= least)


def stops(what: str) -> Like:
    def holds(_: View, each: Body) -> bool:
        stop = each.get("stop", [])
        return len(stop) > 1 if what == "several" else any("\n" in one for one in stop)

    return has("stop") if what == "any" else Like(f"with `stop`: {what}", holds)


def messages(least: int) -> Like:
    return Like(
        f"with {least} messages or more", lambda _, each: len(each.get("messages", ())) >= least
    )


def sized(low: int, high: int | None = None) -> Like:
    words = f"over {low} tokens" if high is None else f"{low + 1} to {high} tokens"
    return Like(
        f"with a prompt of {words}",
        lambda _, each: size_of(each) > low and (high is None or size_of(each) <= high),
    )


def multiple(size: int, rest: int = 0) -> Like:
    return Like(
        f"with {rest} tokens over a multiple of {size}",
        lambda _, each: size_of(each) >= size and size_of(each) % size == rest,
    )


def equal(key: str) -> Like:
    return Like(
        f"with its `{key}`",
        lambda v, each: key in v.body and each.get(key) == v.body[key],
    )


def other(key: str) -> Like:
    return Like(f"with another `{key}`", lambda v, each: each.get(key) != v.body.get(key))


def shares(size: int) -> Like:
    """Its first tokens, or more of them."""

    def holds(view: View, each: Body) -> bool:
        text = text_of(view.body)
        return pieces(text, common(text, text_of(each))) >= size

    return Like(f"with its first {size} tokens", holds)


def longer(size: int) -> Like:
    return Like(
        f"longer by {size} tokens or more", lambda v, each: size_of(each) >= size_of(v.body) + size
    )


def as_long(modulo: int | None = None) -> Like:
    modulus = modulo or 10**9
    return Like(
        "with as many tokens" + f", modulo {modulo}" * (modulo is not None),
        lambda v, each: size_of(each) % modulus == size_of(v.body) % modulus,
    )


def _goes_on(view: View, each: Body) -> bool:
    earlier, mine = each.get("messages", []), view.body.get("messages", [])
    return 0 < len(earlier) < len(mine) and mine[: len(earlier)] == earlier


CONTINUED = Like("whose chat it goes on with", _goes_on)


# --- when a request is answered wrongly ---


def itself(like: Like) -> Condition:
    return Condition(like.words, lambda v: like.holds(v, v.body))


def came(like: Like) -> Condition:
    return Condition(f"after one {like.words}", lambda v: bool(like.of(v, v.before)))


def last(like: Like, count: int = 1) -> Condition:
    words = "right" if count == 1 else f"up to {count}"
    return Condition(
        f"{words} after one {like.words}", lambda v: bool(like.of(v, v.before[-count:]))
    )


def beside(like: Like, least: int = 1) -> Condition:
    words = "one" if least == 1 else f"{least} or more"
    return Condition(
        f"at once with {words} {like.words}".strip(), lambda v: len(like.of(v, v.beside)) >= least
    )


def under_way(like: Like) -> Condition:
    words = f"at its arrival one {like.words} is under way"
    return Condition(words, lambda v: bool(like.of(v, v.here)))


def numbered(words: str, is_one: Callable[[int], bool], like: Like = ANY) -> Condition:
    """By the number of requests that are like this, with this one, since the start."""
    return Condition(
        f"{words} request of a start {like.words}".strip(),
        lambda v: like.holds(v, v.body) and is_one(len(like.of(v, v.before)) + 1),
    )


def from_on(count: int, like: Like = ANY) -> Condition:
    return numbered(f"from {count} on of the", lambda number: number >= count, like)


def every(period: int, like: Like = ANY) -> Condition:
    return numbered(f"every {period}th", lambda number: number % period == 0, like)


def between(first: int, to: int, like: Like = ANY) -> Condition:
    return numbered(f"the {first}th to {to}th", lambda number: first <= number <= to, like)


def distinct(words: str, is_one: Callable[[int], bool]) -> Condition:
    """By the number of different prompts since the start."""
    return Condition(words, lambda v: is_one(len({text_of(each) for each in [*v.before, v.body]})))


def back(words: str, measured: Callable[[Sequence[Body]], int], least: int) -> Condition:
    """The prompt came before, and what came since the last time measures so much."""

    def holds(view: View) -> bool:
        texts = [text_of(each) for each in view.before]
        if text_of(view.body) not in texts:
            return False
        since = view.before[len(texts) - texts[::-1].index(text_of(view.body)) :]
        return measured(since) >= least

    return Condition(f"its prompt, {least} {words} since", holds)


IDLE = Condition(
    "after 0.9 s without a request, or first", lambda v: v.idle_s >= 0.9 or not v.before
)


def late(seconds: float) -> Condition:
    return Condition(f"{seconds} s after the start's first request", lambda v: v.since_s >= seconds)


def from_token(place: int, condition: Condition) -> Condition:
    words = f"{condition.words or 'any request'}, from token {place + 1}"
    return Condition(words, lambda v: place if condition.holds(v) else None, place)


Kind = Callable[[random.Random], Condition]


def _window(draw: random.Random) -> Condition:
    size = draw.choice([40, 64, 96])
    return Condition(
        f"prompt and answer over {size} tokens", lambda v: max(0, size - size_of(v.body)), 0
    )


def _preempted(draw: random.Random) -> Condition:
    size = draw.choice([200, 300])
    return Condition(
        f"prompts of {size} tokens under way", lambda v: bool(v.beside) and v.load >= size
    )


def _served(draw: random.Random) -> Condition:
    size = draw.choice([300, 500])
    return Condition(f"{size} tokens served", lambda v: v.served >= size)


def _full_table(draw: random.Random) -> Condition:
    count = draw.randint(5, 9)
    return distinct(f"{count} different prompts", lambda number: number >= count)


KNOWN: dict[str, Kind] = {
    "prefix_reuse": lambda d: came(shares(d.choice([6, 8, 12, 16]))),
    "whole_prompt_in_cache": lambda _: came(SAME),
    "from_a_count_on": lambda d: from_on(d.randint(5, 13)),
    "each_so_many": lambda d: every(d.randint(2, 6)),
    "the_first": lambda _: numbered("the first", lambda number: number == 1),
    "idle": lambda _: IDLE,
    "at_once": lambda d: beside(ANY, d.randint(2, 4) - 1),
    "long_prompt": lambda d: itself(sized(d.choice([16, 32, 64]))),
    "past_a_window": _window,
    "streamed_signs": lambda _: itself(has("stream") & SIGNS),
    "stop_strings": lambda d: itself(stops(d.choice(["several", "new line", "any"]))),
    "adapter_switch": lambda _: last(other("model")),
    "shared_generator": lambda _: itself(SEEDED) & came(SEEDED),
    "salt_ignored": lambda d: came(SAME & other(d.choice(["cache_salt", "model"]))),
    "grammar_cache": lambda _: (
        itself(has("response_format")) & came(has("response_format") & other("response_format"))
    ),
    "evicted_and_reused": lambda d: back(
        "tokens of others", lambda since: sum(map(size_of, since)), d.choice([60, 120])
    ),
    "equal_length": lambda _: came(as_long() & ANOTHER),
    "poisoned": lambda d: last(has(d.choice(["n", "logprobs", "min_tokens"])), d.randint(1, 3)),
    "poisoned_for_ever": lambda d: came(has(d.choice(["n", "tools", "stop"]))),
    "leak_beside": lambda d: beside(has(d.choice(["logprobs", "response_format", "stop"]))),
    "preempted": _preempted,
    "logprobs": lambda d: itself(valued("logprobs", d.choice([1, 3]))),
    "greedy_long": lambda d: itself(GREEDY & sized(d.choice([24, 48]))),
    "streamed_tools": lambda d: itself(has("stream", d.choice(["tools", "response_format"]))),
    "conversation": lambda _: came(CONTINUED),
    "full_table": _full_table,
    "tokens_served": _served,
    "second_time": lambda _: numbered("the 2nd", lambda number: number == 2, SAME),
    "chunk_edge": lambda d: itself(multiple(d.choice([8, 16]), 1)),
    "prefix_and_parameter": lambda d: (
        itself(has(d.choice(["stream", "logprobs", "seed"]))) & came(shares(d.choice([8, 12])))
    ),
    "padding": lambda d: last(longer(d.choice([5, 20]))),
    "prefix_of_adapter": lambda d: came(shares(d.choice([4, 8])) & other("model")),
    "crowded_sampling": lambda d: itself(SEEDED) & beside(ANY, d.randint(2, 3) - 1),
    "first_of_adapter": lambda _: (
        itself(has("model")) & numbered("the first", lambda number: number == 1, equal("model"))
    ),
    "each_so_many_streams": lambda d: every(d.randint(2, 3), has("stream")),
    "collision": lambda d: came(as_long(d.choice([16, 24])) & ANOTHER),
    "bucket": lambda d: itself(sized(low := d.choice([16, 32]), 2 * low)),
    "seed_collision": lambda _: came(equal("seed") & ANOTHER),
    "long_answer": lambda d: from_token(d.choice([12, 20]), itself(ANY)),
    "streams_at_once": lambda _: itself(has("stream")) & beside(has("stream")),
    "twice_in_a_row": lambda _: last(SAME),
    "for_a_while": lambda d: between(d.randint(3, 5), d.randint(7, 11)),
    "long_talk": lambda _: itself(messages(4)),
    "question": lambda _: itself(QUESTION),
    "long_and_cached": lambda d: (
        came(shares(d.choice([8, 12]))) & itself(sized(d.choice([24, 48])))
    ),
    "tools": lambda _: itself(has("tools")),
    "adapter_and_form": lambda _: itself(has("model", "response_format")),
    "evicted_after_some": lambda d: back("others", len, d.randint(3, 6)),
    "after_a_long_one": lambda d: came(sized(d.choice([64, 128]))),
}


# --- any condition that can be said ---

_KEYS = [
    "stop", "logprobs", "min_tokens", "n", "model", "cache_salt", "top_k", "response_format",
    "stream", "seed", "tools",
]  # fmt: skip
_OWN: list[Callable[[random.Random], Like]] = [
    lambda d: has(d.choice(_KEYS)),
    lambda d: has(d.choice(_KEYS)),
    lambda d: has(d.choice(_KEYS)),
    lambda d: sized(d.choice([12, 24, 48])),
    lambda d: sized(0, d.choice([12, 24, 48])),
    lambda d: multiple(d.choice([4, 8])),
    lambda d: valued("max_tokens", d.choice([24, 48])),
    lambda d: d.choice([GREEDY, SAMPLED]),
    lambda d: d.choice([SIGNS, QUESTION]),
    lambda d: messages(d.choice([1, 4])),
]
_RELATED: list[Callable[[random.Random], Like]] = [
    lambda _: SAME,
    lambda d: shares(d.choice([4, 8, 12])),
    lambda d: other(d.choice(["model", "cache_salt", "seed"])),
    lambda d: equal(d.choice(["model", "cache_salt", "seed", "top_k"])) & ANOTHER,
    lambda d: as_long(d.choice([None, 8, 16])) & ANOTHER,
    lambda _: CONTINUED,
    lambda d: longer(d.choice([1, 10])),
]
_SCOPES: list[Callable[[random.Random], Condition]] = [
    lambda d: came(_another(d)),
    lambda d: came(_another(d)),
    lambda d: last(_another(d), d.randint(1, 3)),
    lambda d: beside(_another(d), d.choice([1, 1, 2])),
    lambda d: from_on(d.randint(3, 8), _some(d)),
    lambda d: every(d.randint(2, 4), _some(d)),
    lambda d: between(d.randint(2, 4), d.randint(5, 9), _some(d)),
    lambda d: from_on(d.randint(2, 4), SAME),
    lambda d: back("others", len, d.randint(2, 6)),
    lambda d: d.choice([IDLE, late(d.choice([0.3, 0.6]))]),
]


def _own(draw: random.Random) -> Like:
    return draw.choice(_OWN)(draw)


def _some(draw: random.Random) -> Like:
    return draw.choice([ANY, _own(draw)])


def _another(draw: random.Random) -> Like:
    """What an earlier request is like: something alone, by the request that comes, or both."""
    related = draw.choice(_RELATED)(draw)
    return draw.choice([_own(draw), related, related, related & _own(draw)])


def composed(draw: random.Random) -> Condition:
    """What a request holds (nothing, one thing or two), and when it is sent, and from which token of its answer on."""
    own, scope = _own(draw), draw.choice(_SCOPES)(draw)
    condition = draw.choice(
        [itself(own), itself(own & _own(draw)), scope, scope, scope, itself(own) & scope]
    )
    return from_token(draw.choice([4, 8]), condition) if draw.random() < 0.2 else condition
