# SPDX-License-Identifier: Apache-2.0
"""Requests as teams send them, a simulated server that batches continuously, and faults that servers of LLMs had."""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ci_doctor.correctness.localise.trials import SentAnswer, Trial, common, pieces
from ci_doctor.load.requests import Request

Body = Mapping[str, Any]
# Steps a second.
RATE = 500
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
WORDS = [
    "harbour",
    "ship",
    "pilot",
    "lamp",
    "river",
    "bread",
    "winter",
    "train",
    "ticket",
    "garden",
    "doctor",
    "window",
    "letter",
    "market",
    "copper",
    "bridge",
    "island",
    "music",
    "candle",
    "forest",
    "engine",
    "paper",
    "clock",
    "mountain",
    "sugar",
    "table",
    "hammer",
    "ocean",
    "thread",
    "valley",
    "button",
    "coffee",
    "the",
    "of",
    "with",
    "near",
    "under",
    "and",
    "before",
    "a",
    "old",
    "small",
    "quick",
    "seven",
    "likes",
    "opens",
    "carries",
    "waits",
    "sings",
    "breaks",
    "holds",
    "moves",
]
FOREIGN = ("café", "Zürich", "naïve", "春天", "東京", "🙂", "Ελλάδα")


# --- requests ---

# A parameter, the share of requests that have it, and its values.
PARAMETERS: tuple[tuple[str, float, list[Any]], ...] = (
    ("stop", 0.25, [["."], ["\n\n"], ["END", "\n"], ["the"]]),
    ("logprobs", 0.2, [1, 3, 5]),
    ("min_tokens", 0.15, [4, 12]),
    ("n", 0.12, [2, 3]),
    ("model", 0.35, ["lora-a", "lora-b"]),
    ("cache_salt", 0.25, ["red", "blue"]),
    ("top_k", 0.2, [1, 20, 50]),
    (
        "response_format",
        0.2,
        [{"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "town"}}],
    ),
)


def sentence(draw: random.Random, count: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(count)).capitalize() + draw.choice(".?!.")


def text_of(body: Body) -> str:
    if "messages" in body:
        return "\n".join(f"{each['role']}: {each['content']}" for each in body["messages"])
    return str(body["prompt"])


def size_of(body: Body) -> int:
    """Tokens of a prompt: words and signs."""
    return pieces(text_of(body), len(text_of(body)))


def suite(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Bodies as a team's file has them: chats of one system prompt, conversations, templates, long ones, parameters."""
    system = {"role": "system", "content": sentence(draw, draw.randint(12, 40))}
    template = sentence(draw, draw.randint(15, 45))
    bodies: list[dict[str, Any]] = []
    for _ in range(count):
        body = prompt(draw, bodies, system, template) | parameters(draw)
        if "messages" in body and draw.random() < 0.2:
            name = draw.choice(["look_up", "book"])
            body["tools"] = [{"type": "function", "function": {"name": name}}]
        if all(each != body for each in bodies):
            bodies.append(body)
    return bodies


def prompt(
    draw: random.Random, bodies: Sequence[Body], system: Body, template: str
) -> dict[str, Any]:
    """A prompt or messages, some of which go on with earlier ones or are the same."""
    asked = sentence(draw, draw.choice([4, 6, 9, 14, 25]))
    if draw.random() < 0.2:
        asked += " " + draw.choice(FOREIGN)
    kind = draw.choice(["plain", "plain", "template", "chat", "chat", "talk", "long", "again"])
    known = [each for each in bodies if "messages" in each]
    if kind == "again" and bodies:
        earlier = draw.choice(bodies)
        return {key: earlier[key] for key in ("prompt", "messages") if key in earlier}
    question = {"role": "user", "content": asked}
    if kind == "talk" and known:
        turn = {"role": "assistant", "content": sentence(draw, 6)}
        return {"messages": [*draw.choice(known)["messages"], turn, question]}
    if kind in {"chat", "talk"}:
        return {"messages": [system, question]}
    if kind == "long":
        return {"prompt": sentence(draw, draw.randint(80, 260)) + " " + asked}
    return {"prompt": f"{template} {asked}" if kind == "template" else asked}


def parameters(draw: random.Random) -> dict[str, Any]:
    body: dict[str, Any] = {
        "max_tokens": draw.choice([8, 16, 24, 32, 48, 64]),
        "temperature": draw.choice([0, 0, 0, 0.7]),
    }
    if body["temperature"] or draw.random() < 0.3:
        body["seed"] = draw.choice([1, 7, 42])
    for key, share, values in PARAMETERS:
        if draw.random() < share:
            body[key] = draw.choice(values)
    if draw.random() < 0.3:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


# --- a server ---


class View(NamedTuple):
    """A request as a server sees it: what arrived before, what is under way at its arrival or later, the seconds without any."""

    body: Body
    before: Sequence[Body]
    here: Sequence[Body]
    beside: Sequence[Body]
    idle_s: float
    served: int
    # The most tokens of prompts that are under way with it at one time, its own among them.
    load: int


# The token from which on the answer is wrong; None if it is right.
Fault = Callable[[View], int | None]


def answer_words(body: Body) -> list[str]:
    """What the model says: by the prompt, and by what is sampled; as long as it may be."""
    sampled = (body.get("seed"), body["temperature"]) if body.get("temperature") else ()
    parts = (text_of(body), sampled, body.get("model"), body.get("response_format"))
    draw = random.Random(hashlib.sha256(repr(parts).encode()).digest())
    least = body.get("min_tokens", 1)
    count = min(body.get("max_tokens", 16), max(least, draw.randint(6, 70)))
    said = [draw.choice(WORDS) for _ in range(count)]
    if draw.random() < 0.25:
        said[draw.randrange(count)] = draw.choice(FOREIGN)
    stops = [said.index(each) for each in body.get("stop", ()) if each in said[least:]]
    return said[: max(1, min(stops))] if stops else said


class Server:
    """One start."""

    def __init__(self, fault: Fault | None, draw: random.Random) -> None:
        self.fault, self.draw = fault, draw
        self.before: list[Body] = []
        self.step, self.last_end, self.served = 0, 0, 0

    def block(self, bodies: Sequence[Body], width: int) -> list[tuple[str, int]]:
        """The answers to bodies, so many of which are under way, and when each came."""
        order = list(range(len(bodies)))
        # The first ones are sent at once, and arrive in any order.
        head = order[:width]
        self.draw.shuffle(head)
        order[:width] = head
        said = [answer_words(each) for each in bodies]
        times: dict[int, tuple[int, int]] = {}
        arrived: list[tuple[int, list[Body], int, float]] = []
        ends: list[int] = []
        for at in order:
            self.step = (
                max(self.step, *sorted(ends)[-width:][:1]) if len(ends) >= width else self.step
            )
            here = [other for other, (_, end) in times.items() if end > self.step]
            idle_s = 0.0 if here else (self.step - self.last_end) / RATE
            times[at] = (self.step, self.step + len(said[at]) * bodies[at].get("n", 1))
            ends.append(times[at][1])
            served = self.served + sum(
                size_of(bodies[other]) + len(said[other]) * bodies[other].get("n", 1)
                for other in times
                if other != at and other not in here
            )
            arrived.append((at, list(self.before), served, idle_s))
            self.before.append(bodies[at])
            self.last_end = max(ends)
        self.step = max(ends)
        self.served += sum(
            size_of(body) + len(each) * body.get("n", 1)
            for body, each in zip(bodies, said, strict=True)
        )
        answers = [("", 0)] * len(bodies)
        for at, before, served, idle_s in arrived:
            begin, end = times[at]
            beside = [
                other for other, (b, e) in times.items() if other != at and b < end and e > begin
            ]
            view = View(
                bodies[at], before, [bodies[each] for each in beside if times[each][0] <= begin and bodies[each] in before],
                [bodies[each] for each in beside], idle_s, served, max(
                    sum(size_of(bodies[each]) for each, (b, e) in times.items() if b <= moment < e)
                    for moment in {begin, *(times[each][0] for each in beside)} if begin <= moment < end
                ),
            )  # fmt: skip
            place = self.fault(view) if self.fault else None
            told = said[at]
            if place is not None and place < len(told):
                told = [*told[:place], *(each[::-1] + "x" for each in told[place:])]
            answers[at] = (" ".join(told), end)
        return answers


def answered(
    trial: Trial, requests: Mapping[str, Request], fault: Fault | None, seed: object
) -> list[dict[str, SentAnswer]]:
    server = Server(fault, random.Random(repr(seed)))
    blocks = []
    for number, block in enumerate(trial.blocks):
        if number == len(trial.blocks) - 1:
            server.step += round(RATE * trial.pause_s)
        bodies = [requests[name].body for name in block.names]
        given = {}
        for name, body, (said, end) in zip(
            block.names, bodies, server.block(bodies, block.at_once), strict=True
        ):
            count = len(answer_words(body))
            limit = body.get("max_tokens", 16)
            given[name] = SentAnswer(
                answer=said, text=said, prompt_tokens=size_of(body), answer_tokens=count * body.get("n", 1),
                finish="length" if count >= limit else "stop", at_s=end / RATE, choices=body.get("n", 1),
            )  # fmt: skip
        blocks.append(given)
    return blocks


# --- faults ---


def shared(view: View, others: Sequence[Body]) -> int:
    """The tokens that a prompt shares with another at its beginning, at most."""
    text = text_of(view.body)
    return max((pieces(text, common(text, text_of(each))) for each in others), default=0)


def same(view: View) -> list[Body]:
    return [each for each in view.before if text_of(each) == text_of(view.body)]


def since(view: View) -> list[Body]:
    """What came since the same prompt."""
    texts = [text_of(each) for each in view.before]
    return list(view.before[len(texts) - texts[::-1].index(text_of(view.body)) :])


def other_of(view: View, key: str) -> Callable[[Body], bool]:
    return lambda each: each.get(key) != view.body.get(key)


def is_sampled(body: Body) -> bool:
    return bool(body.get("temperature")) and "seed" in body


def foreign(text: str) -> bool:
    return not text.isascii()


Planted = tuple[str, Callable[[View], int | None]]
# Of each kind: what is drawn, in words, and which requests are answered wrongly (True), or from which token on.
FAULTS: dict[str, Callable[[random.Random], Planted]] = {}


def kind(made: Callable[[random.Random], Planted]) -> Callable[[random.Random], Planted]:
    FAULTS[made.__name__] = made
    return made


@kind
def prefix_reuse(draw: random.Random) -> Planted:
    size = draw.choice([6, 8, 12, 16])
    return (
        f"a beginning of {size} tokens or more is in the cache",
        lambda v: shared(v, v.before) >= size,
    )


@kind
def whole_prompt_in_cache(_draw: random.Random) -> Planted:
    return "the same prompt came before", lambda v: bool(same(v))


@kind
def from_a_count_on(draw: random.Random) -> Planted:
    count = draw.randint(5, 13)
    return f"from request {count} on", lambda v: len(v.before) >= count - 1


@kind
def each_so_many(draw: random.Random) -> Planted:
    period = draw.randint(2, 6)
    return f"every {period}th request", lambda v: (len(v.before) + 1) % period == 0


@kind
def the_first(_draw: random.Random) -> Planted:
    return "the first request of a start", lambda v: not v.before


@kind
def idle(_draw: random.Random) -> Planted:
    return "after 0.9 s without a request, or first", lambda v: v.idle_s >= 0.9 or not v.before


@kind
def at_once(draw: random.Random) -> Planted:
    count = draw.randint(2, 4)
    return f"{count} or more at its arrival or later", lambda v: len(v.beside) >= count - 1


@kind
def long_prompt(draw: random.Random) -> Planted:
    size = draw.choice([16, 32, 64])
    return f"prompts over {size} tokens", lambda v: size_of(v.body) > size


@kind
def past_a_window(draw: random.Random) -> Planted:
    size = draw.choice([40, 64, 96])
    return f"prompt and answer over {size} tokens", lambda v: max(0, size - size_of(v.body))


@kind
def streamed_signs(_draw: random.Random) -> Planted:
    return (
        "streams whose prompt is not ASCII",
        lambda v: "stream" in v.body and foreign(text_of(v.body)),
    )


@kind
def stop_strings(draw: random.Random) -> Planted:
    what = draw.choice(["several", "new line", "any"])

    def holds(view: View) -> bool:
        stop = view.body.get("stop", [])
        return {
            "several": len(stop) > 1,
            "new line": any("\n" in each for each in stop),
            "any": bool(stop),
        }[what]

    return f"`stop`: {what}", holds


@kind
def adapter_switch(_draw: random.Random) -> Planted:
    return (
        "right after another `model`",
        lambda v: bool(v.before) and other_of(v, "model")(v.before[-1]),
    )


@kind
def shared_generator(_draw: random.Random) -> Planted:
    return (
        "sampled after another sampled one",
        lambda v: is_sampled(v.body) and any(map(is_sampled, v.before)),
    )


@kind
def salt_ignored(_draw: random.Random) -> Planted:
    key = _draw.choice(["cache_salt", "model"])
    return f"the same prompt came with another `{key}`", lambda v: any(
        map(other_of(v, key), same(v))
    )


@kind
def grammar_cache(_draw: random.Random) -> Planted:
    def holds(view: View) -> bool:
        earlier = [each for each in view.before if "response_format" in each]
        return "response_format" in view.body and any(
            map(other_of(view, "response_format"), earlier)
        )

    return "`response_format` after another one", holds


@kind
def evicted_and_reused(draw: random.Random) -> Planted:
    size = draw.choice([60, 120])
    return (
        f"the same prompt, {size} tokens of others since",
        lambda v: bool(same(v)) and sum(map(size_of, since(v))) >= size,
    )


@kind
def equal_length(_draw: random.Random) -> Planted:
    def holds(view: View) -> bool:
        return any(
            size_of(each) == size_of(view.body) and text_of(each) != text_of(view.body)
            for each in view.before
        )

    return "after another prompt of as many tokens", holds


@kind
def poisoned(draw: random.Random) -> Planted:
    key, count = draw.choice(["n", "logprobs", "min_tokens"]), draw.randint(1, 3)
    return f"up to {count} after one with `{key}`", lambda v: any(
        key in each for each in v.before[-count:]
    )


@kind
def poisoned_for_ever(draw: random.Random) -> Planted:
    key = draw.choice(["n", "tools", "stop"])
    return f"after one with `{key}`", lambda v: any(key in each for each in v.before)


@kind
def leak_beside(draw: random.Random) -> Planted:
    key = draw.choice(["logprobs", "response_format", "stop"])
    return f"at once with one with `{key}`", lambda v: any(key in each for each in v.beside)


@kind
def preempted(draw: random.Random) -> Planted:
    size = draw.choice([200, 300])
    return f"prompts of {size} tokens under way", lambda v: bool(v.beside) and v.load >= size


@kind
def logprobs(draw: random.Random) -> Planted:
    least = draw.choice([1, 3])
    return f"`logprobs` {least} or more", lambda v: v.body.get("logprobs", 0) >= least


@kind
def greedy_long(draw: random.Random) -> Planted:
    size = draw.choice([24, 48])
    return (
        f"greedy, over {size} tokens",
        lambda v: not v.body.get("temperature") and size_of(v.body) > size,
    )


@kind
def streamed_tools(_draw: random.Random) -> Planted:
    key = _draw.choice(["tools", "response_format"])
    return f"streams with `{key}`", lambda v: {"stream", key} <= v.body.keys()


@kind
def conversation(_draw: random.Random) -> Planted:
    def holds(view: View) -> bool:
        mine = view.body.get("messages", [])
        return any(
            len(each["messages"]) < len(mine) and mine[: len(each["messages"])] == each["messages"]
            for each in view.before
            if "messages" in each
        )

    return "goes on with an earlier chat", holds


@kind
def full_table(draw: random.Random) -> Planted:
    count = draw.randint(5, 9)
    return (
        f"{count} different prompts",
        lambda v: len({text_of(each) for each in [*v.before, v.body]}) >= count,
    )


@kind
def tokens_served(draw: random.Random) -> Planted:
    size = draw.choice([300, 500])
    return f"{size} tokens served", lambda v: v.served >= size


@kind
def second_time(_draw: random.Random) -> Planted:
    return "the prompt's second time", lambda v: len(same(v)) == 1


@kind
def chunk_edge(draw: random.Random) -> Planted:
    size = draw.choice([8, 16])
    return (
        f"tokens one over a multiple of {size}",
        lambda v: size_of(v.body) > size and size_of(v.body) % size == 1,
    )


@kind
def prefix_and_parameter(draw: random.Random) -> Planted:
    key, size = draw.choice(["stream", "logprobs", "seed"]), draw.choice([8, 12])
    return (
        f"`{key}`, and {size} tokens in the cache",
        lambda v: key in v.body and shared(v, v.before) >= size,
    )


@kind
def padding(draw: random.Random) -> Planted:
    size = draw.choice([5, 20])
    return (
        f"right after a prompt longer by {size} tokens",
        lambda v: bool(v.before) and size_of(v.before[-1]) >= size_of(v.body) + size,
    )


@kind
def prefix_of_adapter(draw: random.Random) -> Planted:
    size = draw.choice([4, 8])
    return (
        f"{size} tokens came with another `model`",
        lambda v: shared(v, list(filter(other_of(v, "model"), v.before))) >= size,
    )


@kind
def crowded_sampling(draw: random.Random) -> Planted:
    count = draw.randint(2, 3)
    return (
        f"sampled, {count} or more at once",
        lambda v: is_sampled(v.body) and len(v.beside) >= count - 1,
    )


@kind
def first_of_adapter(_draw: random.Random) -> Planted:
    def holds(view: View) -> bool:
        return "model" in view.body and not any(
            each.get("model") == view.body["model"] for each in view.before
        )

    return "the first with its `model`", holds


@kind
def each_so_many_streams(draw: random.Random) -> Planted:
    period = draw.randint(2, 3)
    return (
        f"every {period}th stream",
        lambda v: (
            "stream" in v.body
            and sum("stream" in each for each in [*v.before, v.body]) % period == 0
        ),
    )


@kind
def collision(draw: random.Random) -> Planted:
    size = draw.choice([16, 24])

    def holds(view: View) -> bool:
        texts = {
            text_of(each)
            for each in view.before
            if size_of(each) % size == size_of(view.body) % size
        }
        return bool(texts - {text_of(view.body)})

    return f"after another prompt of as many tokens, modulo {size}", holds


@kind
def bucket(draw: random.Random) -> Planted:
    low = draw.choice([16, 32])
    return f"prompts of {low + 1} to {2 * low} tokens", lambda v: low < size_of(v.body) <= 2 * low


@kind
def seed_collision(_draw: random.Random) -> Planted:
    def holds(view: View) -> bool:
        texts = {text_of(each) for each in view.before if each.get("seed") == view.body.get("seed")}
        return "seed" in view.body and bool(texts - {text_of(view.body)})

    return "after another prompt with the same `seed`", holds


@kind
def long_answer(draw: random.Random) -> Planted:
    size = draw.choice([12, 20])
    return f"answers from token {size} on", lambda _v: size


@kind
def streams_at_once(_draw: random.Random) -> Planted:
    return (
        "streams at once with another",
        lambda v: "stream" in v.body and any("stream" in each for each in v.beside),
    )


@kind
def twice_in_a_row(_draw: random.Random) -> Planted:
    return (
        "right after the same prompt",
        lambda v: bool(v.before) and text_of(v.before[-1]) == text_of(v.body),
    )


@kind
def for_a_while(draw: random.Random) -> Planted:
    first, last = draw.randint(3, 5), draw.randint(7, 11)
    return f"requests {first} to {last} of a start", lambda v: first <= len(v.before) + 1 <= last


@kind
def long_talk(_draw: random.Random) -> Planted:
    return "chats of 4 messages or more", lambda v: len(v.body.get("messages", ())) >= 4


@kind
def question(_draw: random.Random) -> Planted:
    return "prompts that end with ?", lambda v: text_of(v.body).endswith("?")


@kind
def long_and_cached(draw: random.Random) -> Planted:
    size, least = draw.choice([8, 12]), draw.choice([24, 48])
    return (
        f"{size} tokens in the cache, prompts over {least}",
        lambda v: shared(v, v.before) >= size and size_of(v.body) > least,
    )


@kind
def tools(_draw: random.Random) -> Planted:
    return "`tools`", lambda v: "tools" in v.body


@kind
def adapter_and_form(_draw: random.Random) -> Planted:
    return "`model` and `response_format`", lambda v: {"model", "response_format"} <= v.body.keys()


@kind
def evicted_after_some(draw: random.Random) -> Planted:
    count = draw.randint(3, 6)
    return (
        f"the same prompt, {count} others since",
        lambda v: bool(same(v)) and len(since(v)) >= count,
    )


@kind
def after_a_long_one(draw: random.Random) -> Planted:
    size = draw.choice([64, 128])
    return f"after a prompt over {size} tokens", lambda v: any(
        size_of(each) > size for each in v.before
    )
