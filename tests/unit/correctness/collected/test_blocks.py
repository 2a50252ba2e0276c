# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.collected.formats import AmbiguousError, blocks, shape


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
