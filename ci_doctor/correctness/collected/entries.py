# SPDX-License-Identifier: Apache-2.0
"""One line of a file of samples as a value: the slow and complete way. Pure."""

import json
from collections.abc import Iterator
from typing import Any, TypeGuard

from msgspec import Struct

from ci_doctor.correctness.collected.formats import ID_KEYS, TEXT_KEYS, SampleFormat
from ci_doctor.load.canonical import Canonical, check_output, digest, is_empty_output
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.requests import read_collected
from ci_doctor.load.schema import parse_json

_MOST_ERROR = 200  # characters; a server may answer with a page of HTML
_MOST_COUNT = 999_999_999  # as in `pieces`


class Entry(Struct, frozen=True, kw_only=True):
    """One answer, or why there is none: `output` with its `digest`, or `error`.

    `group` is (arm, start) if the line names them; `pass_` counts from 1; `id` is None if the line
    has none. `prompt_facts` is what the server reports of the prompt, `empty` whether the answer
    holds no text.
    """

    id: str | None = None
    group: tuple[str, int] | None = None
    pass_: int = 1
    output: dict[str, Any] | None = None
    digest: str | None = None
    error: str | None = None
    prompt_facts: dict[str, Any] = {}
    empty: bool = False


def read(form: SampleFormat, content: bytes) -> Entry:
    """The value of one line, or of one block's content in LMCache's format.

    Never raises: what cannot be read is an error.
    """
    if form is SampleFormat.LMCACHE:
        return _text_entry(None, [content.decode("utf-8", "surrogateescape")])
    try:
        value = parse_json(content)
    except ValueError as error:
        return Entry(error=f"not JSON: {error}")
    if not isinstance(value, dict):
        return Entry(error=f"a JSON {type(value).__name__} instead of an object")
    try:
        return _READERS[form](value, content)
    except (NotAnAnswerError, RecursionError) as error:
        group = _group(value) if form is SampleFormat.OURS else None
        reason = str(error)
        if isinstance(error, RecursionError):
            reason = "nested too deep"
        return Entry(id=_identity(value), error=reason, group=group)


def _identity(value: dict[str, Any]) -> str | None:
    for key in ID_KEYS:
        identity = value.get(key)
        if isinstance(identity, str) or _is_number(identity):
            return str(identity)
    return None


def _is_number(value: object) -> TypeGuard[int]:
    # True is an int to Python, and no number to JSON.
    return isinstance(value, int) and not isinstance(value, bool)


def _group(value: dict[str, Any]) -> tuple[str, int] | None:
    arm = value.get("arm")
    start = value.get("start")
    # A tuple, and not a set: `arm` may be a list, which has no hash.
    if arm not in ("baseline", "candidate") or not _is_count(start):
        return None
    return str(arm), start


def _is_count(value: object) -> TypeGuard[int]:
    """Whether a start or a pass may have this number: they count from 1."""
    return _is_number(value) and 1 <= value <= _MOST_COUNT


def _ours(value: dict[str, Any], _content: bytes) -> Entry:
    """A line of samples.jsonl."""
    group = _group(value)
    number = value.get("pass")
    identity = value.get("id")
    if group is None or not _is_count(number) or not isinstance(identity, str):
        return Entry(
            error="no sample of ci-doctor: `arm`, `start`, `pass` or `id` is missing or wrong"
        )
    error = _sample_error(value)
    if error is not None:
        return Entry(id=identity, group=group, pass_=number, error=error)
    output = value["output"]
    prompt_facts = value.get("prompt_facts")
    try:
        return Entry(
            id=identity,
            group=group,
            pass_=number,
            output=output,
            # Computed anew: the digest in the file may be wrong, and only the answer itself counts.
            digest=digest(output),
            prompt_facts=prompt_facts if isinstance(prompt_facts, dict) else {},
            empty=is_empty_output(output),
        )
    except NotAnAnswerError as reason:
        return Entry(id=identity, group=group, pass_=number, error=str(reason))


def _sample_error(value: dict[str, Any]) -> str | None:
    """Why a sample holds no answer; None if it holds one."""
    error = value.get("error")
    output = value.get("output")
    if error is not None or not isinstance(output, dict):
        return str(error or "no answer")
    status = value.get("status", 200)
    if status not in (None, 200):
        return f"HTTP {status}"[:_MOST_ERROR]
    try:
        check_output(output)
    except NotAnAnswerError as problem:
        return str(problem)
    return None


def _response(value: dict[str, Any], content: bytes) -> Entry:
    identity = _identity(value)
    if value.get("object") == "error":
        message = value.get("message")
        error = f"an error: {message}"
        return Entry(id=identity, error=error[:_MOST_ERROR])
    answer = read_collected(content)
    return _canonical_entry(identity, answer)


def _batch(value: dict[str, Any], _content: bytes) -> Entry:
    """A line of OpenAI's batch output (API reference, "The request output object")."""
    name = None
    custom_id = value.get("custom_id")
    if isinstance(custom_id, str):
        name = custom_id
    response = value.get("response")
    if value.get("error") or not isinstance(response, dict):
        return _failed(name, value)
    status = response.get("status_code", 200)
    if status != 200:
        return Entry(id=name, error=f"HTTP {status}")
    body = json.dumps(response.get("body")).encode()
    try:
        answer = read_collected(body)
    except NotAnAnswerError as error:
        # Caught here, because only a batch line names its request outside the answer.
        return Entry(id=name, error=str(error))
    return _canonical_entry(name, answer)


def _failed(identity: str | None, value: dict[str, Any]) -> Entry:
    details = json.dumps(value.get("error"))
    error = f"an error: {details}"
    return Entry(id=identity, error=error[:_MOST_ERROR])


def _canonical_entry(identity: str | None, answer: Canonical) -> Entry:
    return Entry(
        id=identity,
        output=answer.output,
        digest=answer.digest,
        prompt_facts=answer.prompt_facts,
        empty=answer.empty,
    )


def _row(value: dict[str, Any], _content: bytes) -> Entry:
    identity = _identity(value)
    if value.get("error") or value.get("success") is False:
        return _failed(identity, value)
    texts: list[str] = []
    for key in TEXT_KEYS:
        if key in value:
            texts = _texts(value[key])
            break
    if not texts:
        return Entry(id=identity, error="no generated text in the row")
    return _text_entry(identity, texts)


def _texts(value: Any) -> list[str]:
    """The strings of a string or of nested lists (lm-eval's `resps`); none if one is no string."""
    leaves = list(_leaves(value))
    # Half of an answer must not pass for all of it.
    if not all(isinstance(leaf, str) for leaf in leaves):
        return []
    return leaves


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _text_entry(identity: str | None, texts: list[str]) -> Entry:
    choices = []
    for index, text in enumerate(texts):
        choice = {"index": index, "text": text}
        choices.append(choice)
    output = {"choices": choices}
    return Entry(
        id=identity,
        output=output,
        digest=digest(output),
        empty=not any(texts),
    )


_READERS = {
    SampleFormat.OURS: _ours,
    SampleFormat.RESPONSES: _response,
    SampleFormat.BATCH: _batch,
    SampleFormat.ROWS: _row,
}
