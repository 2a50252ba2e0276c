# SPDX-License-Identifier: Apache-2.0
"""Requests as teams send them, and a simulated server that batches continuously and can have a fault."""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ci_doctor.correctness.localise.trials import SentAnswer, Trial, pieces
from ci_doctor.load.requests import Request

Body = Mapping[str, Any]
# Steps a second.
RATE = 500
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
# fmt: off
WORDS = [
    "harbour", "ship", "pilot", "lamp", "river", "bread", "winter", "train", "ticket", "garden",
    "doctor", "window", "letter", "market", "copper", "bridge", "island", "music", "candle",
    "forest", "engine", "paper", "clock", "mountain", "sugar", "table", "hammer", "ocean",
    "thread", "valley", "button", "coffee", "the", "of", "with", "near", "under", "and",
    "before", "a", "old", "small", "quick", "seven", "likes", "opens", "carries", "waits",
    "sings", "breaks", "holds", "moves",
]
# fmt: on
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
    ("repetition_penalty", 0.2, [1.1, 1.3]),
    ("logit_bias", 0.2, [{"50": -100}, {"11": 5}]),
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
    """A request as a server sees it: what arrived before, what is under way at its arrival or later.

    Idle seconds are those without any request; others are since the first.
    """

    body: Body
    before: Sequence[Body]
    here: Sequence[Body]
    beside: Sequence[Body]
    idle_s: float
    since_s: float
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
                [bodies[each] for each in beside], idle_s, begin / RATE, served, max(
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
