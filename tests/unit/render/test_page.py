# SPDX-License-Identifier: Apache-2.0
from ci_doctor.render.markup import PagePiece, page


def test_an_empty_line_counts_as_the_byte_that_it_takes() -> None:
    pieces = [
        PagePiece(place=(number,), rank=0, text=text)
        for number, text in enumerate(("", "", "a", "", "b"))
    ]
    whole = "h\n\n\na\n\nb\n"
    assert page("h", pieces, len(whole)) == whole
    assert "Left out" in page("h", pieces, len(whole) - 1)
