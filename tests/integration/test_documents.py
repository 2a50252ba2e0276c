# SPDX-License-Identifier: Apache-2.0
"""The blocks of the documentation that say that they are run: each is, and ends and prints as its page shows."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.documents.marker import Run, is_marker, parse_marker
from tests.support.documents.page import Block, page_names, read_page
from tests.support.documents.scratch_run import expected_codes, run_statements, shows
from tests.support.documents.shell_commands import SHELLS, statements

pytestmark = pytest.mark.integration


def blocks_to_run() -> list[tuple[Block, Run]]:
    found = []
    for name in page_names():
        for block in read_page(name).blocks:
            if block.comment is None or not is_marker(block.comment):
                continue
            # tests/unit/test_pages.py reports a marker that is none.
            with suppress(ValueError):
                marker = parse_marker(block.comment)
                if isinstance(marker, Run):
                    found.append((block, marker))
    return found


TO_RUN = blocks_to_run()


@pytest.mark.parametrize(("block", "marker"), TO_RUN, ids=[str(block) for block, _ in TO_RUN])
def test_a_block_ends_and_prints_as_its_page_shows(
    block: Block, marker: Run, tmp_path: Path
) -> None:
    assert block.language in SHELLS, f"{block}: nothing runs a block of {block.language}"
    every = statements(block.language, block.text)
    chosen = [each for each in every if not any(word in each.text for word in marker.left_out)]
    for word in marker.left_out:
        assert any(word in each.text for each in every), f"{block}: nothing holds {word}"
    assert chosen, f"{block}: nothing is left to run"

    if marker.needs and shutil.which(marker.needs) is None:
        pytest.skip(f"no {marker.needs}")

    runs = run_statements(marker, chosen, tmp_path)
    for ran, code in zip(runs, expected_codes(marker, chosen), strict=True):
        assert ran.code == code, (
            f"{block}: {ran.statement.text}\nexit status {ran.code}\n{ran.printed}"
        )
        if ran.statement.shown:
            assert shows(ran.statement.shown, ran.printed), (
                f"{block}: it prints\n{ran.printed}\nand the page shows\n{ran.statement.shown}"
            )
