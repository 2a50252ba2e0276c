# SPDX-License-Identifier: Apache-2.0
"""Differences to localise, and starts that are a function of what they got, for tests."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ci_doctor.correctness.localise.search import LocalisationSearch
from ci_doctor.correctness.localise.trials import (
    Localisation,
    LocalisedDifference,
    SentAnswer,
    Trial,
    TrialSend,
    observed,
)
from ci_doctor.load.requests import Request

Body = Mapping[str, Any]
# Whether the candidate answers otherwise: by the bodies that this start got before, the body, and
# those that are under way with it.
Fault = Callable[[Sequence[Body], Body, Sequence[Body]], bool]

# They share no beginning but the last two, and have lengths and limits of their own.
BODIES: tuple[dict[str, Any], ...] = (
    {"prompt": "Say something kind about the sea.", "max_tokens": 9},
    {"prompt": "List the planets" + ", each with a remark" * 6, "max_tokens": 20},
    {"prompt": "Count to twenty.", "max_tokens": 40, "seed": 7},
    {"prompt": "A ship enters the harbour; what does the pilot do?", "max_tokens": 12},
    {"prompt": "Describe a café in Zürich with its guests.", "max_tokens": 30},
    {"prompt": "Explain gravity to a child of nine, as a poet.", "max_tokens": 11, "stop": ["#"]},
    {"prompt": "Explain gravity to a child of nine, as a judge.", "max_tokens": 15},
)


SYSTEM = {"role": "system", "content": "You sell boots and ropes in a shop near the harbour. "}


def chat(*said: str, **more: Any) -> dict[str, Any]:
    """A chat of the shop, whose first and last message are of the user."""
    roles = ("user", "assistant") * len(said)
    turns = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
    return {"messages": [SYSTEM, *turns], "max_tokens": 30, **more}


NOTICE = "Doors open at ten and close at five. " * 8
# Chats, among them one that goes on with another, two prompts with one beginning, and many parameters.
MIXED: tuple[dict[str, Any], ...] = (
    chat("Are you open on Sunday?"),
    chat("May I return a jacket?"),
    chat("May I return a jacket?", "Within 30 days.", "And if it is worn?"),
    {"prompt": "Translate: the train is late.", "max_tokens": 31, "stop": ["."]},
    {"prompt": NOTICE + "When do they open?", "max_tokens": 28},
    {"prompt": NOTICE + "Who waits there?", "max_tokens": 28},
    {"prompt": "The capital of Norway is", "max_tokens": 1, "logprobs": 5},
    {"prompt": "A slogan for a bakery:", "max_tokens": 33, "n": 3, "seed": 11},
    {"messages": [{"role": "user", "content": "写一首关于春天的短诗。"}], "max_tokens": 30},
    {"prompt": "Q: How high is it?", "max_tokens": 29, "stop": ["\n\n", "Q:"]},
    {"prompt": "def fibonacci(n):", "max_tokens": 35, "stop": ["\ndef "]},
    {"prompt": "Add a smile 🙂 to it", "max_tokens": 27, "min_tokens": 8},
    {"prompt": "List ten fruits, please", "max_tokens": 32, "logit_bias": {"9891": 2}},
)


def text(body: Body) -> str:
    """What a body asks."""
    return str(body.get("prompt")) if "prompt" in body else str(body["messages"])


def subject(
    differing: Sequence[str] = ("r0",), bodies: Sequence[Body] = BODIES, **changes: Any
) -> LocalisedDifference:
    """A difference on some of these requests, in each of 20 pairs, at four at once, in two passes."""
    requests = tuple(
        Request(
            id=f"r{number}",
            path="/v1/chat/completions" if "messages" in body else "/v1/completions",
            body=dict(body),
            line=number + 1,
        )
        for number, body in enumerate(bodies)
    )
    fields: dict[str, Any] = {
        "request": next(each for each in requests if each.id == differing[0]),
        "requests": requests,
        "differing": tuple(differing),
        "concurrency": 4,
        "passes": 2,
        "pairs": 20,
        "differing_pairs": 20,
        **changes,
    }
    return LocalisedDifference(**fields)


def answered(
    trial: Trial, requests: Mapping[str, Request], fault: Fault | None, late: int = 0
) -> list[dict[str, SentAnswer]]:
    """What a start answers to a trial; the baseline has no fault. An answer has as many tokens as it may.

    A fault changes an answer behind its first `late` tokens. A stream tells its tokens if it is asked.
    """
    before: list[Body] = []
    blocks = []
    for block in trial.blocks:
        given = {}
        bodies = [requests[name].body for name in block.names]
        for name, body in zip(block.names, bodies, strict=True):
            beside = [each for each in bodies if each is not body] if block.at_once > 1 else []
            is_wrong = fault is not None and fault(before, body, beside)
            count = body.get("max_tokens", 16)
            said = (
                "word " * min(late, count)
                + ("false" if is_wrong else "right")[: 5 * (count > late)]
            )
            is_told = "stream" not in body or "stream_options" in body
            given[name] = SentAnswer(
                answer=said,
                text=said + "." * (5 * count - len(said)),
                prompt_tokens=is_told * max(1, len(text(body)) // 4),
                answer_tokens=is_told * count,
                # An answer has twenty tokens to say.
                finish="length" if body.get("max_tokens", 16) < 20 else "stop",
                at_s=0.01 * len(before),
            )
            before.append(body)
        blocks.append(given)
    return blocks


def searched(
    of: LocalisedDifference, fault: Fault, pairs: int = 8, late: int = 0
) -> LocalisationSearch:
    """The search once nothing is left to try, or so many pairs of starts are made."""
    search = LocalisationSearch(of)
    for _ in range(pairs):
        trial = search.next_trial()
        if trial is None:
            break
        right = answered(trial, search.requests, None, late)
        wrong = answered(trial, search.requests, fault, late)
        search.results.append(observed(trial, right, wrong))
    return search


def localised(
    of: LocalisedDifference, fault: Fault, pairs: int = 8, **changes: Any
) -> Localisation:
    """What such a search came to."""
    search = searched(of, fault, pairs)
    fields: dict[str, Any] = {
        "subject": of,
        "conclusion": search.conclusion(),
        "results": tuple(search.told),
        "requests": search.requests,
        **changes,
    }
    return Localisation(**fields)


def prompted(names: Iterable[str], **more: Any) -> dict[str, Request]:
    """Requests of these names, whose prompts are their names."""
    return {
        name: Request(id=name, path="/v1/completions", body={"prompt": name, **more}, line=1)
        for name in names
    }


def sends_of(*spec: tuple[str, bool, str]) -> list[TrialSend]:
    """One at a time: the name, whether it differs, and what the baseline says up to there."""
    return [
        TrialSend(name=name, block=at, at_once=1, wrong=wrong, said=said, length=9)
        for at, (name, wrong, said) in enumerate(spec)
    ]
