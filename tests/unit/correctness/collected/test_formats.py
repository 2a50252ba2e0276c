# SPDX-License-Identifier: Apache-2.0
"""Forms are told apart by content, and their records read."""

import json

import pytest

from ci_doctor.correctness.collected.blocks import AmbiguousError, blocks, shape
from ci_doctor.correctness.collected.entries import read
from ci_doctor.correctness.collected.formats import ID_KEYS, TEXT_KEYS, Format, named, recognise
from ci_doctor.errors import UsageError


@pytest.mark.parametrize(
    ("line", "form"),
    [
        (b'{"arm": "baseline", "start": 1, "pass": 1, "id": "r0", "output": null}', Format.OURS),
        (b'{"id": "x", "choices": []}', Format.RESPONSES),
        (b'{"error": {"message": "no"}}', Format.RESPONSES),
        (b'{"custom_id": "r0", "response": {"status_code": 200}}', Format.BATCH),
        (b'{"prompt": "a", "generated_text": "b"}', Format.ROWS),
        (b'{"doc_id": 3, "resps": [["b"]]}', Format.ROWS),
        (b"chatcmpl-WJidmXp_0:\n", Format.LMCACHE),
        (b"hRPPgZT_11:\n", Format.LMCACHE),
        (b"Answer:\n", None),
        (b"not samples\n", None),
        (b'{"unknown": 1}', None),
    ],
)
def test_a_form_is_known_by_its_first_line(line: bytes, form: Format | None) -> None:
    assert recognise(line) is form


def test_a_mistyped_form_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError) as raised:
        named("respones")

    assert raised.value.hint == "did you mean `responses`?"


@pytest.mark.parametrize("identity", ID_KEYS)
@pytest.mark.parametrize("key", TEXT_KEYS)
def test_a_row_is_read_under_every_key_of_the_table(identity: str, key: str) -> None:
    entry = read(Format.ROWS, json.dumps({identity: 7, key: "Paris"}).encode())

    assert (entry.id, entry.output) == ("7", {"choices": [{"index": 0, "text": "Paris"}]})


@pytest.mark.parametrize(
    ("form", "line"),
    [
        (Format.RESPONSES, '{"id": "x", "choices": []}'),
        (Format.RESPONSES, '{"id": "x", "object": "error", "message": "no"}'),
        (Format.RESPONSES, "[]"),
        (
            Format.BATCH,
            '{"custom_id": "x", "response": {"status_code": 500, "body": {}}, "error": null}',
        ),
        (Format.BATCH, '{"custom_id": "x", "response": null, "error": {"code": "expired"}}'),
        (Format.ROWS, '{"id": "x", "success": false, "generated_text": ""}'),
        (Format.ROWS, '{"id": "x", "output": {"no": "text"}}'),
        (Format.ROWS, '{"id": "x", "output": "Paris", "output": "Rome"}'),
        (
            Format.BATCH,
            '{"custom_id": "x", "response": {"body": {"choices": [{"text": "a", "text": "b"}]}}}',
        ),
        (
            Format.OURS,
            '{"arm": "baseline", "start": 1, "pass": 1, "id": "x", "error": "HTTP 500", "output": null}',
        ),
        (
            Format.OURS,
            '{"arm": "neither", "start": 1, "pass": 1, "id": "x", "output": {"choices": []}}',
        ),
    ],
)
def test_what_is_no_answer_is_an_error(form: Format, line: str) -> None:
    entry = read(form, line.encode())

    assert entry.error
    assert entry.digest is None


def test_a_batch_line_is_the_same_answer_as_the_response_in_it() -> None:
    body = {"id": "a", "created": 1, "choices": [{"index": 0, "text": "Paris"}]}
    line = {"custom_id": "r0", "response": {"status_code": 200, "body": body}, "error": None}

    batch = read(Format.BATCH, json.dumps(line).encode())

    assert batch.id == "r0"
    assert batch.digest == read(Format.RESPONSES, json.dumps(body).encode()).digest


def contents(text: bytes) -> dict[str, bytes]:
    return {
        name: text[at : at + length] for name, at, length in blocks(text.splitlines(keepends=True))
    }


def test_blocks_hold_many_lines_and_prose_with_colons() -> None:
    text = b"chatcmpl-WJidmXp_0:\nFirst:\nNote: this\n\nchatcmpl-WJidmXp_10:\n\nchatcmpl-hRPPgZT_2:\nlast\n"

    assert contents(text) == {
        "chatcmpl-WJidmXp_0": b"First:\nNote: this\n",
        "chatcmpl-WJidmXp_10": b"",
        "chatcmpl-hRPPgZT_2": b"last",
    }


def test_an_id_without_content_is_an_empty_answer() -> None:
    assert contents(b"a_0:\na_1:\nx\n") == {"a_0": b"", "a_1": b"x"}


def test_the_shape_of_an_id() -> None:
    assert shape("chatcmpl-WJidmXp_0") == r"chatcmpl\-[A-Za-z0-9]{7}_[0-9]+"


@pytest.mark.parametrize("text", [b"once upon\na_0:\nx\n", b"Answer:\nx\n", b"a_0:\nx\na_0:\ny\n"])
def test_blocks_that_cannot_be_told_apart_are_refused(text: bytes) -> None:
    with pytest.raises(AmbiguousError):
        contents(text)
