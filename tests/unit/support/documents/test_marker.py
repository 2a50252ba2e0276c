# SPDX-License-Identifier: Apache-2.0
"""The comments that say how a block is run."""

import pytest

from tests.support.documents.marker import NotRun, Run, RunBy, parse_marker


@pytest.mark.parametrize(
    ("comment", "marker"),
    [
        ("not run: needs a GPU", NotRun("needs a GPU")),
        ("run by tests/unit/test_docs.py::test_x", RunBy("tests/unit/test_docs.py", "test_x")),
        ("run", Run()),
        ("run in examples/lint; git; exit 1, 0", Run("examples/lint", exit=(1, 0), git=True)),
        (
            "run; venv; needs jq; except pip, apt (no index)",
            Run(venv=True, needs="jq", left_out=("pip", "apt")),
        ),
    ],
)
def test_a_marker_says_how_a_block_is_run(comment: str, marker: object) -> None:
    assert parse_marker(comment) == marker


@pytest.mark.parametrize(
    "comment", ["not run", "not run:", "run by a test", "run in", "run; quickly", "run; except pip"]
)
def test_a_marker_without_a_reason_or_of_other_words_is_refused(comment: str) -> None:
    with pytest.raises(ValueError, match="marker"):
        parse_marker(comment)
