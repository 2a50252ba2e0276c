# SPDX-License-Identifier: Apache-2.0
"""One answer in both forms: whole, and as a stream in whatever pieces a test draws. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from ci_doctor.load.canonical import Canonical, canonicalise_value
from ci_doctor.load.schema import folded, parse_value

HEAD = {"id": "cmpl-1", "created": 1, "model": "tiny", "system_fingerprint": "a"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
WORDS = ["", "a", "é", "日本", "\n\r", "\u2028", "data: ", "🙂", '"']


def canonicalise(body: bytes, expected: int | None = None) -> Canonical:
    """The canonical form of the body of an answer in one piece."""
    return canonicalise_value(parse_value(body), expected)


def canonicalise_stream(body: bytes, expected: int | None = None) -> Canonical:
    """The canonical form of the body of a streamed answer."""
    return canonicalise_value(folded(body), expected)


def event(value: Any, end: str = "\n") -> bytes:
    data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"data: {data}{end}{end}".encode()


def stream(chunks: Sequence[Any], *, end: str = "\n", done: bool = True) -> bytes:
    return b"".join(event(chunk, end) for chunk in [*chunks, *(["[DONE]"] if done else [])])


@st.composite
def completions(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A completion of one to three choices, whole and in chunks that are interleaved."""
    choices: list[dict[str, Any]] = []
    queues: list[list[dict[str, Any]]] = []
    for index in range(draw(st.integers(1, 3))):
        tokens = draw(st.lists(st.sampled_from(WORDS), max_size=6))
        numbers = draw(st.lists(st.floats(-50, 0), min_size=len(tokens), max_size=len(tokens)))
        ends = {"finish_reason": "stop", "stop_reason": draw(st.sampled_from([None, 2, "x"]))}
        cuts = sorted(draw(st.lists(st.integers(0, len(tokens)), max_size=4)))
        pieces = list(zip([0, *cuts], [*cuts, len(tokens)], strict=True))
        choices.append(
            {
                "index": index,
                **_piece(tokens, numbers, 0, len(tokens)),
                **ends,
                "prompt_token_ids": [1, 2, 3],
            }
        )
        parts: list[dict[str, Any]] = [
            {"index": index, "finish_reason": None, **_piece(tokens, numbers, *each)}
            for each in pieces
        ]
        parts[0]["prompt_token_ids"] = [1, 2, 3]
        parts[-1] |= ends
        queues.append(parts)
    whole = {**HEAD, "choices": draw(st.permutations(choices)), "usage": USAGE}
    return whole, [*_chunks(draw, queues), {**HEAD, "choices": [], "usage": USAGE}]


def _piece(tokens: list[str], numbers: list[float], start: int, stop: int) -> dict[str, Any]:
    offsets = [len("".join(tokens[:place])) for place in range(start, stop)]
    logprobs = {
        "tokens": tokens[start:stop],
        "token_logprobs": numbers[start:stop],
        "text_offset": offsets,
        "top_logprobs": [{"a": number, "b": -1} for number in numbers[start:stop]],
    }
    ids = list(range(start, stop))
    return {
        "text": "".join(tokens[start:stop]),
        "token_ids": ids,
        "logprobs": logprobs if ids else None,
    }


@st.composite
def chats(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A chat's answer with reasoning, text and tool calls, whole and in chunks that are interleaved."""
    choices: list[dict[str, Any]] = []
    queues: list[list[dict[str, Any]]] = []
    for index in range(draw(st.integers(1, 2))):
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "tool_calls": [],
        }
        entries = []
        for key in ("reasoning_content", "content"):
            words = draw(st.lists(st.sampled_from(WORDS), max_size=4))
            message[key] = "".join(words) or draw(st.sampled_from(["", None]))
            deltas += [{key: word} for word in words]
            entries += [_entry(word) for word in words]
        for number in range(draw(st.integers(0, 2))):
            arguments = draw(st.lists(st.sampled_from(["{", '"é": 1', "}", ""]), max_size=4))
            function = {"name": f"f{number}", "arguments": "".join(arguments)}
            message["tool_calls"].append(
                {"id": f"call-{number}", "type": "function", "function": function}
            )
            first = {
                "index": number,
                "id": "call-x",
                "function": {"name": f"f{number}", "arguments": ""},
            }
            deltas.append({"tool_calls": [first]})
            deltas += [
                {"tool_calls": [{"index": number, "function": {"arguments": part}}]}
                for part in arguments
            ]
        choices.append(
            {
                "index": index,
                "message": message,
                "finish_reason": "stop",
                "logprobs": {"content": entries, "refusal": None},
            }
        )
        parts = [{"index": index, "delta": delta, "logprobs": _told(delta)} for delta in deltas]
        queues.append([*parts, {"index": index, "delta": {}, "finish_reason": "stop"}])
    whole = {**HEAD, "prompt_token_ids": [1, 2], "choices": choices, "usage": USAGE}
    chunks = _chunks(draw, queues)
    chunks[0]["prompt_token_ids"] = [1, 2]
    return whole, [*chunks, {**HEAD, "choices": [], "usage": USAGE}]


def _entry(word: str) -> dict[str, Any]:
    return {"token": word, "logprob": -0.1, "bytes": list(word.encode()), "top_logprobs": []}


def _told(delta: dict[str, Any]) -> dict[str, Any] | None:
    if "role" in delta:
        return None
    spoken = [delta[key] for key in ("reasoning_content", "content") if key in delta]
    return {"content": [_entry(word) for word in spoken]} if spoken else None


def _chunks(draw: st.DrawFn, queues: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One choice a chunk, or one of several; the order within a choice stays."""
    chunks = []
    while queues := [queue for queue in queues if queue]:
        taken = draw(st.lists(st.integers(0, len(queues) - 1), min_size=1, unique=True))
        chunks.append(
            {
                **HEAD,
                "choices": [queues[each].pop(0) for each in taken],
                "usage": draw(st.sampled_from([None, {"completion_tokens": 1}])),
            }
        )
    return chunks
