# SPDX-License-Identifier: Apache-2.0
"""Forms are told apart by content, and their records read."""

import pytest

from ci_doctor.correctness.collected.formats import (
    SampleFormat,
    named,
    recognise,
)
from ci_doctor.errors import UsageError


@pytest.mark.parametrize(
    ("line", "form"),
    [
        (
            b'{"arm": "baseline", "start": 1, "pass": 1, "id": "r0", "output": null}',
            SampleFormat.OURS,
        ),
        (b'{"id": "x", "choices": []}', SampleFormat.RESPONSES),
        (b'{"object": "response", "output": [], "text": {}}', SampleFormat.RESPONSES),
        (b'{"id": "x", "data": [{"embedding": [0.5]}]}', SampleFormat.RESPONSES),
        (b'{"results": [{"index": 0, "relevance_score": 1}]}', SampleFormat.RESPONSES),
        (b'{"id": 1, "text": "a", "scores": [0.5]}', SampleFormat.ROWS),
        (b'{"error": {"message": "no"}}', SampleFormat.RESPONSES),
        (b'{"custom_id": "r0", "response": {"status_code": 200}}', SampleFormat.BATCH),
        (b'{"prompt": "a", "generated_text": "b"}', SampleFormat.ROWS),
        (b'{"doc_id": 3, "resps": [["b"]]}', SampleFormat.ROWS),
        (b"chatcmpl-WJidmXp_0:\n", SampleFormat.LMCACHE),
        (b"hRPPgZT_11:\n", SampleFormat.LMCACHE),
        (b"Answer:\n", None),
        (b"not samples\n", None),
        (b'{"unknown": 1}', None),
    ],
)
def test_a_form_is_known_by_its_first_line(line: bytes, form: SampleFormat | None) -> None:
    assert recognise(line) is form


def test_a_mistyped_form_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError) as raised:
        named("respones")

    assert raised.value.hint == "did you mean `responses`?"
