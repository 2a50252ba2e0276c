# SPDX-License-Identifier: Apache-2.0
"""The parts of a page, as a reader of CommonMark finds them."""

from tests.support.documents.page import parse_page

PAGE = """# A page

<!-- not run: needs a GPU -->
```sh
ci-doctor doctor --gpu
```

Text with `ci-doctor explain 75` and [a link](other.md#there).

```text
nothing
```

## Once & again

### <a id="a/b"></a>`a/b`

## Once & again
"""


def test_a_page_has_blocks_with_the_comment_above_them() -> None:
    page = parse_page("docs/page.md", PAGE)

    first, second = page.blocks
    assert (str(first), first.language, first.comment) == (
        "docs/page.md:4",
        "sh",
        "not run: needs a GPU",
    )
    assert (second.language, second.comment) == ("text", None)
    assert page.code[0] == (8, "ci-doctor explain 75")
    assert page.links == ((8, "other.md#there"),)
