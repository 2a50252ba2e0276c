"""Which parts of a page are sentences, and how long they are."""

import pytest

from tests.support.sentences import LONG, joints, long_cells, sentences, words


@pytest.mark.parametrize(
    "markdown",
    [
        pytest.param("```sh\necho which\n```", id="fenced-code"),
        pytest.param("    echo which", id="indented-code"),
        pytest.param("| what | which |\n|---|---|", id="table"),
        pytest.param("## What happens", id="heading"),
        pytest.param("![one which fails](which.svg)", id="image"),
        pytest.param('<a id="which"></a>', id="html"),
        pytest.param("…", id="no-word"),
    ],
)
def test_only_prose_is_read(markdown: str) -> None:
    assert sentences(f"{markdown}\n\nOne word.") == ["One word."]


def test_inline_code_is_one_word_and_a_link_is_its_text() -> None:
    assert sentences("Run `which python` as [this page](which.md) shows.") == [
        "Run CODE as this page shows."
    ]


def test_the_name_of_a_tool_begins_a_sentence_in_lower_case() -> None:
    assert sentences("It ends. ci-doctor stops it, e.g. by a signal.") == [
        "It ends.",
        "ci-doctor stops it, e.g. by a signal.",
    ]


def test_a_list_item_is_a_sentence_of_its_own() -> None:
    assert sentences("- first\n- second\n  line\n\n1. third") == [
        "- first",
        "- second line",
        "1. third",
    ]


def test_words_and_joints_of_a_sentence_are_counted() -> None:
    sentence = "A start, which is fresh, has 2 ports: one (free) and another."

    assert (words(sentence), joints(sentence)) == (12, 4)


def test_a_colon_at_the_end_introduces_a_block_and_is_no_joint() -> None:
    assert joints("Run this command:") == 0


def test_long_cells_of_a_table_are_found_outside_code() -> None:
    long = "word " * (LONG + 1)
    page = f"| a | b |\n|---|---|\n| {long} | short |\n\n```\n| {long} |\n```\n"

    assert long_cells(page) == [long.strip()]


def test_a_pipe_in_a_cell_does_not_end_it() -> None:
    half = "word " * LONG

    assert len(long_cells(f"| {half} \\| {half} |")) == 1
