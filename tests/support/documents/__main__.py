# SPDX-License-Identifier: Apache-2.0
"""Lists the blocks of all pages with what runs them, and the addresses outside the repository: python -m tests.support.documents."""

from collections import Counter

from tests.support.documents.addresses import is_external
from tests.support.documents.marker import is_marker
from tests.support.documents.page import page_names, read_page


def main() -> None:
    """Print both lists, and how many blocks are run."""
    pages = [read_page(name) for name in page_names()]
    counts: Counter[str] = Counter()
    for page in pages:
        for block in page.blocks:
            if block.comment and is_marker(block.comment):
                print(f"{block}: {block.language}: {block.comment}")
                counts["not run" if block.comment.startswith("not") else "run"] += 1
    print(f"\n{counts['run']} blocks are run, {counts['not run']} are not\n")
    external = {target for page in pages for _, target in page.links if is_external(target)}
    print("\n".join(sorted(external)))


if __name__ == "__main__":
    main()
