# SPDX-License-Identifier: Apache-2.0
"""The blocks, comments and links of a page, as a reader of CommonMark finds them; what is run and what it prints."""

from pathlib import Path

import pytest

from tests.support.documents.addresses import anchors, mistake_in_link, slug_of
from tests.support.documents.command_line import mistake_in, unknown_in
from tests.support.documents.data_blocks import mistake_in_data, pipeline_commands
from tests.support.documents.marker import NotRun, Run, RunBy, parse_marker
from tests.support.documents.page import Block, parse_page
from tests.support.documents.scratch_run import expected_codes, run_statements, shows
from tests.support.documents.shell_commands import Statement, statements, tool_commands

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


def test_anchors_follow_github() -> None:
    assert anchors(parse_page("docs/page.md", PAGE)) == {
        "a-page",
        "once--again",
        "once--again-1",
        "ab",
        "a/b",
    }
    assert slug_of("What's `new`, in 2.0?") == "whats-new-in-20"


@pytest.mark.parametrize(
    ("target", "mistake"),
    [
        ("nowhere.md", "no committed file"),
        ("site/__pycache__", "no committed file"),
        ("glossary.md#arm", "made for the site alone"),
        ("design.md#nothing", "no such heading"),
        ("#nothing", "no such heading"),
        ("../../elsewhere.md", "out of the repository"),
        ("http://example.org", "not https"),
        ("https://exa mple/", "names no host"),
        ("mailto:nobody", "no address"),
    ],
)
def test_a_link_that_leads_nowhere_is_a_mistake(target: str, mistake: str) -> None:
    page = parse_page("docs/page.md", PAGE)

    assert mistake in (mistake_in_link(page, target) or "")


@pytest.mark.parametrize(
    "target",
    ["design.md#the-rooms", "#a/b", "../README.md", "../examples/lint/before", "https://a.org/"],
)
def test_a_link_that_leads_somewhere_is_none(target: str) -> None:
    assert mistake_in_link(parse_page("docs/page.md", PAGE), target) is None


@pytest.mark.parametrize(
    "words",
    [
        "corectness",
        "lint --fixx",
        "lint --severity",
        "correctness --retries many",
        "history began --since",
        "run --determinism strickt -- true",
        "cache",
    ],
)
def test_a_command_line_that_the_parser_refuses_is_a_mistake(words: str) -> None:
    assert mistake_in(words.split()) is not None


def test_a_command_line_with_files_that_are_not_there_is_none() -> None:
    assert mistake_in(["lint", "nowhere", "--config", "nowhere.toml"]) is None
    assert mistake_in([]) is None


def test_inline_code_may_lack_arguments_but_not_name_what_is_not_there() -> None:
    assert unknown_in(["history", "began", "TEST", "…"]) is None
    assert unknown_in(["lint", "--fix"]) is None
    assert unknown_in(["diagnose", "rules", "--check", "FILE"]) is None
    assert "--fixx" in (unknown_in(["lint", "--fixx"]) or "")
    assert "linted" in (unknown_in(["linted"]) or "")


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


def test_statements_run_one_after_another_in_one_shell(tmp_path: Path) -> None:
    chosen = statements("sh", "a=1\necho $a >&2\nfalse   # exit 1\nexit 3\necho never\n")
    marker = Run()

    runs = run_statements(marker, chosen, tmp_path)

    assert [(run.code, run.printed) for run in runs] == [
        (0, ""),
        (0, "1\n"),
        (1, ""),
        (None, ""),
        (None, ""),
    ]
    assert expected_codes(marker, chosen) == [0, 0, 1, 0, 0]


def test_a_page_shows_an_output_if_all_but_times_and_temporary_paths_is_equal() -> None:
    printed = "a  0.2 s\nb /tmp/x-1/y\nc\nd\n"

    assert shows("a 31.5 s\nb /tmp/z\nc\nd\n", printed)
    assert shows("a 31.5 s\n…\nd\n", printed)
    assert shows("a 31.5 s\n…\n", printed)
    assert not shows("a 31.5 s\nb /tmp/z\nc\n", printed)
    assert not shows("a 31.5 s\n…\nc\n", printed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FOO=1 ci-doctor explain 'exit 75' | head -1", [("explain", "exit 75")]),
        ("make || ci-doctor diagnose a.log", [("diagnose", "a.log")]),
        ('exports=$(ci-doctor setup-env) && eval "$exports"', [("setup-env",)]),
        ("uvx --from X ci-doctor explain 75", [("explain", "75")]),
        ("pip install ci-doctor-toolkit", []),
        ("ci-doctor correctness … --resume DIR", [("correctness", "--resume", "DIR")]),
        (
            "ci-doctor run -- ci-doctor explain 75",
            [("run", "--", "ci-doctor"), ("explain", "75")],
        ),
    ],
)
def test_each_ci_doctor_of_a_script_is_read(text: str, words: list[tuple[str, ...]]) -> None:
    assert tool_commands(text) == words


def test_statements_keep_their_lines_and_a_console_its_output() -> None:
    script = "a=$(x) && case $a in\n  y) ;; esac\nls \\\n  -l   # exit 1\ncd a && ls\n"

    assert [(each.line, each.text.split()[0]) for each in statements("sh", script)] == [
        (0, "a=$(x)"),
        (2, "ls"),
        (4, "cd"),
    ]
    assert statements("console", "$ ls\na\nb\n$ pwd\n/\n") == [
        Statement(0, "ls", "a\nb\n"),
        Statement(3, "pwd", "/\n"),
    ]
