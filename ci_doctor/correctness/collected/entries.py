# SPDX-License-Identifier: Apache-2.0
"""One line of a file of samples as a value: the slow and sure way. Pure."""

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.collected.formats import ID_KEYS, TEXT_KEYS, Format
from ci_doctor.load import strict_json
from ci_doctor.load.canonical import Canonical, canonicalise, digest, text_of
from ci_doctor.load.choices import NotAnAnswerError


class Entry(Struct, frozen=True, kw_only=True):
    """One answer, or why there is none: exactly one of `output` and `error` is set, and `digest` is that of the output.

    `group` is (arm, start) where the line names them; `pass_` counts from 1; `id` is None where the line has none.
    `asked` is what the server says it was asked, `empty` that nothing was said.
    """

    id: str | None = None
    group: tuple[str, int] | None = None
    pass_: int = 1
    output: dict[str, Any] | None = None
    digest: str | None = None
    error: str | None = None
    asked: dict[str, Any] = {}
    empty: bool = False


def read(form: Format, content: bytes) -> Entry:
    """What one line says, or one block's content in LMCache's form. Never raises: what cannot be read is an error."""
    if form is Format.LMCACHE:
        return _text_entry(None, [content.decode("utf-8", "surrogateescape")])
    try:
        value = strict_json.parse(content)
    except ValueError as error:
        return Entry(error=f"not JSON: {error}")
    if not isinstance(value, dict):
        return Entry(error=f"a JSON {type(value).__name__} instead of an object")
    try:
        return _READERS[form](value, content)
    except NotAnAnswerError as error:
        return Entry(
            id=_identity(value),
            error=str(error),
            group=_group(value) if form is Format.OURS else None,
        )


def _identity(value: dict[str, Any]) -> str | None:
    for key in ID_KEYS:
        found = value.get(key)
        if isinstance(found, str | int) and not isinstance(found, bool):
            return str(found)
    return None


def _group(value: dict[str, Any]) -> tuple[str, int] | None:
    arm, start = value.get("arm"), value.get("start")
    known = (
        arm in {"baseline", "candidate"} and isinstance(start, int) and not isinstance(start, bool)
    )
    return (str(arm), int(start)) if known and start is not None else None


def _ours(value: dict[str, Any], _content: bytes) -> Entry:
    """A line of samples.jsonl. Its stored digest is not looked at: only the bytes of the answer count."""
    group, number = _group(value), value.get("pass")
    if group is None or not isinstance(number, int) or not isinstance(value.get("id"), str):
        return Entry(error="no sample of ci-doctor: `arm`, `start`, `pass` or `id` is missing")
    known: dict[str, Any] = {"id": value["id"], "group": group, "pass_": number}
    output = value.get("output")
    if value.get("error") is not None or not isinstance(output, dict):
        return Entry(**known, error=str(value.get("error") or "no answer"))
    if not isinstance(output.get("choices"), list) or not all(
        isinstance(each, dict) for each in output["choices"]
    ):
        return Entry(**known, error="no `choices` in the answer")
    asked = value.get("asked")
    try:
        return Entry(
            **known,
            output=output,
            digest=digest(output),
            asked=asked if isinstance(asked, dict) else {},
            empty=says_nothing(output),
        )
    except NotAnAnswerError as error:
        return Entry(**known, error=str(error))


def says_nothing(output: dict[str, Any]) -> bool:
    """Whether no choice of an output holds text or tokens."""
    return not any(
        choice.get("token_ids") or text_of({"choices": [choice]}) for choice in output["choices"]
    )


def _response(value: dict[str, Any], content: bytes) -> Entry:
    if value.get("object") == "error":
        return Entry(id=_identity(value), error=f"an error: {value.get('message')}"[:200])
    return _canonical_entry(_identity(value), canonicalise(content))


def _batch(value: dict[str, Any], _content: bytes) -> Entry:
    """OpenAI's batch output: https://platform.openai.com/docs/api-reference/batch/request-output."""
    identity = value.get("custom_id")
    name = identity if isinstance(identity, str) else None
    response = value.get("response")
    if value.get("error") or not isinstance(response, dict):
        return Entry(id=name, error=f"an error: {json.dumps(value.get('error'))}"[:200])
    if response.get("status_code", 200) != 200:
        return Entry(id=name, error=f"HTTP {response['status_code']}")
    try:
        return _canonical_entry(name, canonicalise(json.dumps(response.get("body")).encode()))
    except NotAnAnswerError as error:
        return Entry(id=name, error=str(error))


def _canonical_entry(identity: str | None, answer: Canonical) -> Entry:
    return Entry(
        id=identity,
        output=answer.output,
        digest=answer.digest,
        asked=answer.prompt_facts,
        empty=answer.empty,
    )


def _row(value: dict[str, Any], _content: bytes) -> Entry:
    identity = _identity(value)
    if value.get("error") or value.get("success") is False:
        return Entry(id=identity, error=f"an error: {json.dumps(value.get('error'))}"[:200])
    key = next((key for key in TEXT_KEYS if key in value), None)
    texts = list(_texts(value[key])) if key else []
    if not texts or None in texts:
        return Entry(id=identity, error="no generated text in the row")
    return _text_entry(identity, [text for text in texts if text is not None])


def _texts(value: Any) -> Iterator[str | None]:
    """The strings of a string or of lists of them (lm-eval's `resps`); None for anything else."""
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    else:
        yield value if isinstance(value, str) else None


def _text_entry(identity: str | None, texts: list[str]) -> Entry:
    output = {"choices": [{"index": index, "text": text} for index, text in enumerate(texts)]}
    return Entry(id=identity, output=output, digest=digest(output), empty=not any(texts))


_READERS = {
    Format.OURS: _ours,
    Format.RESPONSES: _response,
    Format.BATCH: _batch,
    Format.ROWS: _row,
}
