"""How long sentences are, how many joints they have, and which are passive."""

import pytest

from benchmarks.density.readability import LONG, long_cells, read_sentence, read_sentences


def test_words_joints_and_pronouns_of_a_sentence_are_counted() -> None:
    sentence = read_sentence("A start, which is fresh, has 2 ports: one (free) and another.")

    assert (sentence.words, sentence.joints, sentence.pronouns) == (12, 4, 1)


def test_a_colon_at_the_end_introduces_a_block_and_is_no_joint() -> None:
    assert read_sentence("Run this command:").joints == 0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("The server is stopped.", id="regular"),
        pytest.param("The file was not written.", id="irregular"),
        pytest.param("It can be easily found.", id="adverb"),
    ],
)
def test_a_passive_is_known(text: str) -> None:
    assert read_sentence(text).passive


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ci-doctor stopped the server.", id="active"),
        pytest.param("The server is ready, and it answered.", id="another-clause"),
        pytest.param("The limit is red.", id="adjective"),
    ],
)
def test_an_active_sentence_is_not_passive(text: str) -> None:
    assert not read_sentence(text).passive


def test_the_figures_of_a_text_are_those_of_its_sentences() -> None:
    short, long = "Two words.", "word " * (LONG + 1)
    prose = read_sentences([short, long, "The port is taken.", "…"])

    assert prose.words == 2 + LONG + 1 + 4
    assert (prose.median_words, prose.p90_words) == (4, LONG + 1)
    assert (round(prose.long_share), round(prose.passive_share)) == (33, 33)


def test_a_sentence_of_exactly_the_limit_is_not_long() -> None:
    assert read_sentences(["word " * LONG]).long_share == 0


def test_long_cells_of_a_table_are_found_outside_code() -> None:
    long = "word " * (LONG + 1)
    page = f"| a | b |\n|---|---|\n| {long} | short |\n\n```\n| {long} |\n```\n"

    assert long_cells(page) == [long.strip()]


def test_a_pipe_in_a_cell_does_not_end_it() -> None:
    half = "word " * LONG

    assert len(long_cells(f"| {half} \\| {half} |")) == 1
