# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from ci_doctor.correctness.collected.entries import read
from ci_doctor.correctness.collected.formats import ID_KEYS, TEXT_KEYS, SampleFormat


@pytest.mark.parametrize("identity", ID_KEYS)
@pytest.mark.parametrize("key", TEXT_KEYS)
def test_a_row_is_read_under_every_key_of_the_table(identity: str, key: str) -> None:
    entry = read(SampleFormat.ROWS, json.dumps({identity: 7, key: "Paris"}).encode())

    assert (entry.id, entry.output) == ("7", {"choices": [{"index": 0, "text": "Paris"}]})


@pytest.mark.parametrize(
    ("form", "line"),
    [
        (SampleFormat.RESPONSES, '{"id": "x", "choices": []}'),
        (SampleFormat.RESPONSES, '{"id": "x", "object": "error", "message": "no"}'),
        (SampleFormat.RESPONSES, "[]"),
        (
            SampleFormat.BATCH,
            '{"custom_id": "x", "response": {"status_code": 500, "body": {}}, "error": null}',
        ),
        (SampleFormat.BATCH, '{"custom_id": "x", "response": null, "error": {"code": "expired"}}'),
        (SampleFormat.ROWS, '{"id": "x", "success": false, "generated_text": ""}'),
        (SampleFormat.ROWS, '{"id": "x", "output": {"no": "text"}}'),
        (SampleFormat.ROWS, '{"id": "x", "output": "Paris", "output": "Rome"}'),
        (
            SampleFormat.BATCH,
            '{"custom_id": "x", "response": {"body": {"choices": [{"text": "a", "text": "b"}]}}}',
        ),
        (
            SampleFormat.OURS,
            '{"arm": "baseline", "start": 1, "pass": 1, "id": "x", "error": "HTTP 500", "output": null}',
        ),
        (SampleFormat.OURS, '{"arm": [], "start": 1, "pass": 1, "id": "x", "output": {}}'),
        (
            SampleFormat.OURS,
            '{"arm": "neither", "start": 1, "pass": 1, "id": "x", "output": {"choices": []}}',
        ),
    ],
)
def test_what_is_no_answer_is_an_error(form: SampleFormat, line: str) -> None:
    entry = read(form, line.encode())

    assert entry.error
    assert entry.digest is None


def test_a_batch_line_is_the_same_answer_as_the_response_in_it() -> None:
    body = {"id": "a", "created": 1, "choices": [{"index": 0, "text": "Paris"}]}
    line = {"custom_id": "r0", "response": {"status_code": 200, "body": body}, "error": None}

    batch = read(SampleFormat.BATCH, json.dumps(line).encode())

    assert batch.id == "r0"
    assert batch.digest == read(SampleFormat.RESPONSES, json.dumps(body).encode()).digest
