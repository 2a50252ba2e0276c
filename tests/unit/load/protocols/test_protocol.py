# SPDX-License-Identifier: Apache-2.0
"""Whatever a server sends, each protocol makes an answer of it that can be stored, or refuses it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_doctor.load.answer_parts import parts
from ci_doctor.load.canonical import (
    check_output,
    encode,
    is_blank,
    is_empty_output,
    text_of,
)
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.protocols.table import PROTOCOLS

# Those that mean something, so that what is drawn is nearly an answer.
KEYS = [
    "data", "embedding", "embeddings", "float", "base64", "index", "results", "relevance_score", "score",
    "scores", "probs", "label", "document", "text", "usage", "prompt_tokens", "model", "object", "id",
]  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 2, -1, 10**400, 0.5, 1e300, -0.0, "", "a", "AACAPw==", "\ud800"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, min_size=1, max_size=4)
    ),
    max_leaves=10,
)


def nearly_answers() -> st.SearchStrategy[Any]:
    """Values that have the outer form of an answer, with anything inside."""
    part = st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1, max_size=4)
    listed = st.lists(part, min_size=1, max_size=2)
    whole = [st.fixed_dictionaries({key: listed}) for key in ("data", "results")]
    return st.one_of(JSON, listed, *whole)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
@settings(max_examples=40, deadline=None)
@given(
    value=nearly_answers(),
    body=st.none()
    | st.dictionaries(
        st.sampled_from(["input", "documents", "top_n", "text_1", "embed_dtype"]), JSON
    ),
)
def test_any_value_is_an_answer_or_refused(protocol: Any, value: Any, body: Any) -> None:
    protocol.recognises(value)
    try:
        canonical = protocol.read(value, body)
    except NotAnAnswerError:
        return
    encode(canonical.output)
    check_output(canonical.output)
    parts(canonical.output)
    text_of(canonical.output)
    assert is_empty_output(canonical.output) <= is_blank(canonical.output)
