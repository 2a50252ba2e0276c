# SPDX-License-Identifier: Apache-2.0
"""Every page of the documentation: its links lead somewhere, its commands exist, its blocks are what they say."""

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents.addresses import mistake_in_link
from tests.support.documents.command_line import mistake_in, unknown_in
from tests.support.documents.data_blocks import DATA, mistake_in_data, pipeline_commands
from tests.support.documents.marker import HINT, NotRun, Run, RunBy, is_marker, parse_marker
from tests.support.documents.page import ROOT, Block, page_names, read_page
from tests.support.documents.shell_commands import SHELLS, statements, tool_commands, unreadable
from tests.support.tracked_files import tracked_files

PAGES = page_names()
MARKED = SHELLS | {"python", "fish", "dockerfile", "Dockerfile"}
# Made from the rules of lint, whose examples are wrong on purpose: tests/unit/lint/test_all_rules.py reads each.
WRONG_ON_PURPOSE = {"docs/lint-rules.md"}
COMMITTED = [
    name for name in tracked_files() if name.endswith(".md") and not name.startswith("tests/")
]
READ = [name for name in PAGES if name not in WRONG_ON_PURPOSE]


def blocks(name: str) -> tuple[Block, ...]:
    return read_page(name).blocks


@pytest.mark.parametrize("name", sorted({*PAGES, *COMMITTED}))
def test_links_lead_to_committed_files_and_headings(name: str) -> None:
    page = read_page(name)
    mistakes = [
        f"{name}:{line}: {mistake}"
        for line, target in page.links
        if (mistake := mistake_in_link(page, target))
    ]

    assert mistakes == []


@pytest.mark.parametrize("name", READ)
def test_every_block_that_can_be_run_says_whether_it_is(name: str) -> None:
    unmarked = [
        f"{block}: a block of `{block.language}` without a marker"
        for block in blocks(name)
        if block.language in MARKED and not (block.comment and is_marker(block.comment))
    ]

    assert unmarked == [], HINT


@pytest.mark.parametrize("name", READ)
def test_a_marker_is_well_formed_and_stands_above_a_block(name: str) -> None:
    above = [block.comment for block in blocks(name) if block.comment]
    for line, comment in read_page(name).comments:
        if is_marker(comment):
            assert comment in above, f"{name}:{line}: no block stands below `{comment}`"
    for marker in (parse_marker(comment) for comment in above if is_marker(comment)):
        match marker:
            case Run(directory=directory):
                assert (ROOT / (directory or ".")).is_dir(), f"{name}: no directory {directory}"
            case RunBy(file=file, test=test):
                tests = {
                    node.name
                    for node in ast.parse((ROOT / file).read_text()).body
                    if isinstance(node, ast.FunctionDef)
                }
                assert test in tests, f"{name}: no test {test} in {file}"
            case NotRun():
                pass


@pytest.mark.parametrize("name", READ)
def test_what_is_typed_at_a_prompt_is_a_console_block(name: str) -> None:
    wrong = [
        str(block)
        for block in blocks(name)
        if block.language != "console" and block.text.startswith("$ ")
    ]

    assert wrong == []


def scripts(name: str) -> Iterator[tuple[Block, str]]:
    """The scripts on a page: those of its shell blocks, and those in the steps of its pipelines."""
    for block in blocks(name):
        if block.language in SHELLS:
            for statement in statements(block.language, block.text):
                yield block, statement.text
        if block.language in {"yaml", "yml"}:
            for script in pipeline_commands(block.text):
                yield block, script


@pytest.mark.parametrize("name", READ)
def test_every_command_of_a_block_is_taken_by_the_parser(name: str) -> None:
    mistakes = [
        f"{block}: ci-doctor {' '.join(words)}: {mistake}"
        for block, script in scripts(name)
        for words in tool_commands(script)
        if (mistake := mistake_in(words))
    ]

    assert mistakes == []


@pytest.mark.parametrize("name", READ)
def test_every_block_of_shell_is_shell(name: str) -> None:
    assert [str(block) for block, script in scripts(name) if unreadable(script)] == []


@pytest.mark.parametrize("name", READ)
def test_every_command_in_a_sentence_exists(name: str) -> None:
    mistakes = [
        f"{name}:{line}: `{code}`: {mistake}"
        for line, code in read_page(name).code
        for words in tool_commands(code)
        if (mistake := unknown_in(words))
    ]

    assert mistakes == []


@pytest.mark.parametrize("name", READ)
def test_data_is_what_its_reader_takes(name: str, tmp_path: Path) -> None:
    mistakes = [
        f"{block}: {mistake}"
        for block in blocks(name)
        if block.language in DATA and (mistake := mistake_in_data(block, tmp_path))
    ]

    assert mistakes == []


@pytest.mark.parametrize("name", READ)
def test_python_compiles(name: str) -> None:
    for block in blocks(name):
        if block.language == "python":
            compile(block.text, str(block), "exec")


def test_every_page_has_a_place_on_the_site() -> None:
    navigation = runpy.run_path(str(ROOT / "docs" / "site" / "navigation.py"))
    homeless = navigation["without_place"]([name.removesuffix(".md") for name in PAGES])

    assert homeless == [], "add them to a group in docs/site/navigation.py"
