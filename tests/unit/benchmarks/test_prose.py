"""Relative pronouns in Markdown."""

import pytest

from benchmarks.density.prose import Prose, read_prose, sentences


@pytest.mark.parametrize(
    "sentence",
    [
        pytest.param("The server that answers is stopped.", id="that"),
        pytest.param("The log, which is long, is cut.", id="which"),
        pytest.param("It prints what it does.", id="free-relative"),
        pytest.param("A start whose port is taken fails.", id="whose"),
    ],
)
def test_relative_pronouns_are_counted(sentence: str) -> None:
    assert read_prose(sentence).pronouns == 1


@pytest.mark.parametrize(
    "sentence",
    [
        pytest.param("The report says that it failed.", id="object-clause"),
        pytest.param("It waits, so that nothing is lost.", id="purpose"),
        pytest.param("At that moment it ends.", id="demonstrative"),
        pytest.param("That is all.", id="first-word"),
    ],
)
def test_other_uses_of_that_are_not_counted(sentence: str) -> None:
    assert read_prose(sentence).pronouns == 0


@pytest.mark.parametrize(
    "markdown",
    [
        pytest.param("```sh\necho which\n```", id="fenced-code"),
        pytest.param("    echo which", id="indented-code"),
        pytest.param("| what | which |\n|---|---|", id="table"),
        pytest.param("## What happens", id="heading"),
        pytest.param("![one which fails](which.svg)", id="image"),
        pytest.param('<a id="which"></a>', id="html"),
    ],
)
def test_only_prose_is_counted(markdown: str) -> None:
    assert read_prose(f"{markdown}\n\nOne word.") == Prose(words=2, pronouns=0)


def test_inline_code_is_one_word_and_a_link_is_its_text() -> None:
    assert read_prose("Run `which python` as [this page](which.md) shows.") == Prose(6, 0)


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


def test_the_share_of_a_page_without_words_is_zero() -> None:
    assert read_prose("# Title\n").per_100_words == 0.0
    assert Prose(words=50, pronouns=1).per_100_words == 2.0
