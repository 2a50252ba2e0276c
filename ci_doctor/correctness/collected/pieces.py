# SPDX-License-Identifier: Apache-2.0
"""Compares two lines by bytes, without decoding the answer. Pure.

It may answer "unknown" at any time, and the slow way (`entries.read`) then decides. It answers "the
same" only if the lines are equal byte for byte, except for whole values of top-level keys that are
never compared. Nothing inside an answer is masked: a token's text, such as `"id"`, may be a key
there (legacy `top_logprobs`).

Two things it does not notice, which the slow way refuses: a number beyond all doubles (1e999), and
a duplicate key. Both are then the same on both sides.
"""

import re
from hashlib import sha256
from typing import Annotated, NamedTuple

import msgspec

from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.load.choices import BROKEN_OFF
from ci_doctor.load.schema import AnswerSchema, ChoiceSchema

_PLAIN = rb'[^"\\\x00-\x1f\x7f-\xff]*'  # a string that needs no decoding
# As our own SampleWriter writes it: the top-level keys in this order, with these spaces.
_OURS_HEAD = re.compile(
    rb'\{"arm": "(baseline|candidate)", "start": ([1-9][0-9]{0,8}), '
    rb'"pass": (?P<pass>[1-9][0-9]{0,8}), "id": "(?P<id>'
    + _PLAIN
    + rb')", "status": 200, "error": null, "output": (?=\{)'
)
_DIGEST = b', "digest": "'
_OURS_TAIL = re.compile(
    rb', "digest": "[0-9a-f]{64}"(?:, "words_digest": (?:null|"[0-9a-f]{64}"))?'
    rb'(?:, "tokens_digest": (?:null|"[0-9a-f]{64}"))?'
    rb', "prompt_facts": (\{[^{}]*\}), "empty": false, "meta": (?=\{)'
)
# As OpenAI, vLLM and SGLang write it: `created` is a count of seconds.
_RESPONSE_HEAD = re.compile(
    rb'\{"id": ?"(?P<id>'
    + _PLAIN
    + rb')", ?(?:"object": ?"(?:chat\.completion|text_completion)", ?)?'
    rb'"created": ?(?:0|[1-9][0-9]{0,15}), ?(?=")'
)
HEADS = {SampleFormat.OURS: _OURS_HEAD, SampleFormat.RESPONSES: _RESPONSE_HEAD}
ID = "id"  # the group of a head that holds the id


# msgspec checks the whole line as JSON and makes values only of the fields that have a type.
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Usage(msgspec.Struct, gc=False):
    completion_tokens: _Count | None = None
    prompt_tokens: _Count | None = None


class _Response(AnswerSchema, gc=False):
    error: None = None  # anything else does not decode
    usage: _Usage | None = None
    completion_tokens: _Count | None = None  # of our own samples


class _SampleLine(msgspec.Struct, gc=False):
    output: _Response


class _Object(msgspec.Struct, gc=False):
    """Any JSON object."""


_response = msgspec.json.Decoder(_Response).decode
_sample = msgspec.json.Decoder(_SampleLine).decode
_object = msgspec.json.Decoder(_Object).decode


class LineHead(NamedTuple):
    """What a line is about: `group` is (arm, start); the answer begins at byte `at`."""

    group: tuple[bytes, bytes]
    pass_: bytes
    id: bytes
    at: int


def head(form: SampleFormat, line: bytes) -> LineHead | None:
    """The head of a line; None if the line does not begin as expected."""
    pattern = HEADS.get(form)
    match = pattern and pattern.match(line)
    if not match:
        return None
    if form is SampleFormat.RESPONSES:
        # Such a file is one start, and each of its lines is of the first pass.
        return LineHead((b"", b""), b"1", match[1], match.end())
    return LineHead((match[1], match[2]), match[3], match[4], match.end())


def body_end(form: SampleFormat, line: bytes, at: int) -> int | None:
    """Where the compared part that begins at `at` ends; None if the rest is not as expected.

    In our own samples it ends where the value of `meta` begins. That must be the last thing in the
    line: the brace after it then closes the line's own object, so that no second `output` can
    follow.
    """
    if form is SampleFormat.RESPONSES:
        return len(line)
    tail = _OURS_TAIL.match(line, line.rfind(_DIGEST, at))
    if not tail or not _end_with_objects(line[tail.end() :]):
        return None
    return tail.end()


def _end_with_objects(*rests: bytes) -> bool:
    """Whether each rest is one object, the brace that closes the line, and its newline."""
    try:
        for rest in rests:
            if not rest.endswith(b"}}\n") or not rest.isascii():
                return False
            _object(rest[:-2])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def is_answer(form: SampleFormat, line: bytes) -> bool:
    """Whether a line is JSON throughout and holds a whole answer; False also means "unknown"."""
    try:
        # msgspec checks the UTF-8 of the strings that it decodes, and skips the others unchecked.
        if not line.isascii():
            line.decode("utf-8")
        response = _sample(line).output if form is SampleFormat.OURS else _response(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    choices = response.choices
    if response.object == "error" or not choices:
        return False
    # Nearly every answer has one choice: a plain call costs less than `all` and `map`.
    return _is_whole(choices[0]) if len(choices) == 1 else all(map(_is_whole, choices))


def _is_whole(choice: ChoiceSchema) -> bool:
    # null: the answer is not finished.
    if choice.finish_reason is None or choice.finish_reason in BROKEN_OFF:
        return False
    message = choice.message
    if message is None:
        return bool(choice.text)
    # The id of a tool call is random, and not compared: only the slow way can leave it out.
    if message.tool_calls or message.function_call:
        return False
    return bool(message.content or message.reasoning_content or message.reasoning)


def alike(form: SampleFormat, left: bytes, at_left: int, right: bytes, at_right: int) -> bool:
    """Whether `right` holds the same answer as `left`, which holds one; they begin at `at`."""
    if form is SampleFormat.RESPONSES:
        return left[at_left:] == right[at_right:]
    tail = _OURS_TAIL.match(left, left.rfind(_DIGEST, at_left))
    if tail is None:
        return False
    end = tail.end()
    if not right.startswith(left[at_left:end], at_right):
        return False
    return _end_with_objects(left[end:], right[at_right + end - at_left :])


def token(form: SampleFormat, line: bytes, at: int) -> bytes | None:
    """A SHA-256, the same for two lines only if the compared bytes are; None if unknown."""
    if form is SampleFormat.RESPONSES:
        return sha256(line[at:]).digest()
    end = body_end(form, line, at)
    # The stored digest and what was asked are part of it: if they differ, the slow way looks at the
    # answers.
    return None if end is None else sha256(line[at:end]).digest()
