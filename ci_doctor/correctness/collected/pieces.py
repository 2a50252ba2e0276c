# SPDX-License-Identifier: Apache-2.0
"""The fast way to tell that two lines hold the same answer: by their bytes, without making values of them. Pure.

It may say "I do not know" at any time, and the slow way (`entries.read`) then decides. It says "the same" only where the
lines are alike byte for byte but for whole values of top-level keys that are never compared. What stands inside an answer
is never masked: a token's text, such as `"id"`, may be a key there (legacy `top_logprobs`).

Two things it does not see, which the slow way refuses, and which are alike on both sides: a number beyond all doubles
(1e999), and a key that stands twice.
"""

import re
from hashlib import sha256
from typing import NamedTuple

import msgspec

from ci_doctor.correctness.collected.formats import Format
from ci_doctor.load.choices import BROKEN_OFF

_PLAIN = rb'[^"\\\x00-\x1f\x7f-\xff]*'  # a string that needs no decoding
# As our own SampleWriter writes it: the top-level keys in this order, with these spaces.
_OURS_HEAD = re.compile(
    rb'\{"arm": "(baseline|candidate)", "start": ([1-9][0-9]{0,8}), "pass": (?P<pass>[1-9][0-9]{0,8}), "id": "(?P<id>'
    + _PLAIN
    + rb')", "status": 200, "error": null, "output": (?=\{)'
)
_DIGEST = b', "digest": "'
_OURS_TAIL = re.compile(
    rb', "digest": "[0-9a-f]{64}", "asked": (\{[^{}]*\}), "empty": false, "meta": (?=\{)'
)
# As OpenAI, vLLM and SGLang write it: `created` is a count of seconds.
_RESPONSE_HEAD = re.compile(
    rb'\{"id": ?"(?P<id>'
    + _PLAIN
    + rb')", ?(?:"object": ?"(?:chat\.completion|text_completion)", ?)?"created": ?(?:0|[1-9][0-9]{0,15}), ?(?=")'
)
HEADS = {Format.OURS: _OURS_HEAD, Format.RESPONSES: _RESPONSE_HEAD}
ID = "id"  # the group of a head that holds the id


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[msgspec.Raw] | None = None
    function_call: None = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    text: str | None = None
    message: _Message | None = None
    finish_reason: str | None = None


class _Response(msgspec.Struct, gc=False):
    choices: list[_Choice]
    error: None = None  # anything else does not decode
    object: str | None = None


class _Sample(msgspec.Struct, gc=False):
    output: _Response


class _Object(msgspec.Struct, gc=False):
    """Any JSON object."""


_response = msgspec.json.Decoder(_Response).decode
_sample = msgspec.json.Decoder(_Sample).decode
_object = msgspec.json.Decoder(_Object).decode


class Head(NamedTuple):
    """What a line is about. `group` is (arm, start) as they stand in the line; the answer begins at byte `at`."""

    group: tuple[bytes, bytes]
    pass_: bytes
    id: bytes
    at: int


def head(form: Format, line: bytes) -> Head | None:
    """The beginning of a line that has the expected form."""
    if form is Format.RESPONSES:
        found = _RESPONSE_HEAD.match(line)
        return Head((b"", b""), b"1", found[1], found.end()) if found else None
    if form is Format.OURS:
        found = _OURS_HEAD.match(line)
        return Head((found[1], found[2]), found[3], found[4], found.end()) if found else None
    return None


def body_end(form: Format, line: bytes, at: int) -> int | None:
    """Where the compared part that begins at `at` ends; None where the rest of the line is not as expected.

    Of ours it ends where the value of `meta` begins, which must be the last thing in the line: what closes after it then
    closes the line's own object, so that everything the slow way would read of the answer lies before it.
    """
    if form is Format.RESPONSES:
        return len(line)
    tail = _OURS_TAIL.match(line, line.rfind(_DIGEST, at))
    return tail.end() if tail and _end_with_objects(line[tail.end() :]) else None


def _end_with_objects(*rests: bytes) -> bool:
    """Whether each rest of a line is one object, the brace that closes the line, and its newline."""
    try:
        for rest in rests:
            if not rest.endswith(b"}}\n") or not rest.isascii():
                return False
            _object(rest[:-2])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def is_answer(form: Format, line: bytes) -> bool:
    """Whether a line is JSON throughout and holds a whole answer that says something. False also means "I do not know"."""
    try:
        if not line.isascii():
            line.decode("utf-8")
        response = _sample(line).output if form is Format.OURS else _response(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    choices = response.choices
    if response.object == "error" or not choices:
        return False
    return _is_whole(choices[0]) if len(choices) == 1 else all(map(_is_whole, choices))


def _is_whole(choice: _Choice) -> bool:
    if choice.finish_reason in BROKEN_OFF:
        return False
    message = choice.message
    if message is None:
        return bool(choice.text)
    return not message.tool_calls and bool(
        message.content or message.reasoning_content or message.reasoning
    )


def alike(form: Format, left: bytes, at_left: int, right: bytes, at_right: int) -> bool:
    """Whether `right` holds the same answer as `left`, whose answer is known to be one; both begin at these bytes."""
    if form is Format.RESPONSES:
        return left[at_left:] == right[at_right:]
    tail = _OURS_TAIL.match(left, left.rfind(_DIGEST, at_left))
    if tail is None:
        return False
    end = tail.end()
    if not right.startswith(left[at_left:end], at_right):
        return False
    return _end_with_objects(left[end:], right[at_right + end - at_left :])


def token(form: Format, line: bytes, at: int) -> bytes | None:
    """A SHA-256 that is the same for two lines only where the compared bytes are; None where the line is not as expected."""
    if form is Format.RESPONSES:
        return sha256(line[at:]).digest()
    end = body_end(form, line, at)
    # The stored digest and what was asked are part of it: where they differ, the slow way looks at the answers.
    return None if end is None else sha256(line[at:end]).digest()
