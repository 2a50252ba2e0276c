# SPDX-License-Identifier: Apache-2.0
"""Blocks of data that their readers take or refuse."""

from pathlib import Path

import pytest

from tests.support.documents.data_blocks import mistake_in_data, pipeline_commands
from tests.support.documents.page import Block


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("toml", "[lint]\nignored = []\n"),
        ("toml", "[correctness]\nretries = 'many'\n"),
        ("toml", "[tool.ci-doctor.lint]\nignored = []\n"),
        ("toml", "[[rule]]\nid = 'a/b'\n"),
        ("toml", "[[quarantine]]\ntest = 'a'\n"),
        ("toml", "a ="),
        ("json", '{"a": 1,}'),
        ("yaml", "steps:\n  - commandz: make\n"),
        ("yaml", "on: push\njobs: {a: {runs-on: x, step: []}}\n"),
        ("yaml", "a: [\n"),
        ("yaml", "steps:\n  - runs: make\n    uses: a/b@v1\n"),
    ],
)
def test_data_that_its_reader_refuses_is_a_mistake(
    language: str, text: str, tmp_path: Path
) -> None:
    assert mistake_in_data(Block("docs/page.md", 1, language, text), tmp_path) is not None


def test_the_scripts_of_a_pipeline_are_read() -> None:
    assert pipeline_commands(
        "steps:\n  - commands: [a, b]\n  - group: g\n    steps: [{command: c}]\n"
    ) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "text",
    [
        "steps:\n  - command: make\n",
        "on: push\njobs:\n  a:\n    runs-on: x\n    steps: [{run: make}]\n",
        "steps:\n  - uses: a/b@v1\n  - run: make\n    if: always()\n",
        "anything: 1\n",
    ],
)
def test_yaml_that_its_reader_takes_is_none(text: str, tmp_path: Path) -> None:
    assert mistake_in_data(Block("docs/page.md", 1, "yaml", text), tmp_path) is None
