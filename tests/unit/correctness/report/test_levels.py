# SPDX-License-Identifier: Apache-2.0
from msgspec.structs import replace

from ci_doctor.correctness.report.picture import (
    NumberSpread,
    level_facts,
    level_findings,
    level_tables,
    number_spread,
)
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import AnswerLevel, Comparison, read_comparison
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.model.facts.correctness import LevelFacts
from ci_doctor.model.outcome import Verdict
from ci_doctor.render.layout import table_lines
from tests.unit.correctness.numbered import compared, completion, outputs, start


def test_the_spread_is_that_of_the_two_farthest_answers() -> None:
    answers = [completion("a", number, -2.0) for number in (-1.0, -0.75, -1.25)]
    spread = number_spread(answers)
    assert spread is not None
    assert spread.nat == 0.5
    assert spread.ulp == (1 << 22) + (1 << 21), "half of an octave, and a quarter of the next"


def test_alternatives_are_held_beside_each_other_by_token() -> None:
    one = completion("a", -1.0, top=[{"x": -1.0, "y": -2.0}])
    other = completion("a", -1.0, top=[{"y": -2.5, "z": -9.0}])
    spread = number_spread([one, other])
    assert spread is not None
    assert spread.nat == 0.5


def test_numbers_of_other_words_or_tokens_are_not_compared() -> None:
    assert number_spread([completion("a", -1.0), completion("b", -2.0)]) is None
    assert number_spread([completion("a", -1.0)]) is None
    assert number_spread([completion("a"), completion("a")]) is None
    assert number_spread([completion("a", -1.0)] * 2) == NumberSpread()


ONE = completion("a", -1.0, tokens=(1,))
NEAR = completion("a", -1.25, tokens=(1,))
WORD = completion("b", -1.0, tokens=(1,))
ALL = outputs(ONE, NEAR, WORD)
IDS = ["r0", "r1"]


def facts(made: Experiment) -> tuple[LevelFacts, ...]:
    decision = decide(made.starts, IDS, made.rules, complete=True)
    return level_facts(made, decision, IDS)


def shown(made: Experiment) -> list[str]:
    return [line for table in level_tables(facts(made)) for line in table_lines(table, 80)]


def pair(comparison: Comparison, other: dict[str, object]) -> Experiment:
    return compared(comparison, ALL, start("A1", [ONE], [ONE]), start("B1", [ONE], [other]))


def test_words_pass_where_numbers_differ_and_the_gate_decides_which_counts() -> None:
    for level in AnswerLevel:
        made = facts(pair(Comparison(level=level), NEAR))
        assert [each.level for each in made] == ["words", "tokens", "numbers"]
        assert [each.gate for each in made] == [each is level for each in AnswerLevel]
        assert [each.verdict for each in made] == ["pass", "pass", "inconclusive"]
        assert [each.differing for each in made] == [0, 0, 1]
        assert (made[2].largest_nat, made[2].apart, made[2].read) == (0.25, 1, 1)


def test_within_a_limit_numbers_pass_and_their_distance_is_still_reported() -> None:
    made = facts(pair(read_comparison(AnswerLevel.NUMBERS, "0.5 nat"), NEAR))
    numbers = made[2]
    assert (numbers.verdict, numbers.differing, numbers.limit) == ("pass", 0, "0.5 nat")
    assert (numbers.apart, numbers.largest_nat) == (1, 0.25)


def test_a_gate_that_is_not_green_for_numbers_alone_says_how_far_they_lie_apart() -> None:
    made = facts(pair(Comparison(), NEAR))
    [finding] = level_findings(made)
    assert finding.rule == "correctness/numbers-alone"
    assert finding.summary == (
        "all words and tokens are the same; numbers lie 0.25 nat, 2097152 ulp apart at most"
    )
    assert finding.remedy is not None
    assert "--limit" in finding.remedy


def test_no_such_note_beside_other_words_a_green_gate_or_another_gate() -> None:
    for comparison, other in (
        (Comparison(), WORD),
        (read_comparison(AnswerLevel.NUMBERS, "0.5 nat"), NEAR),
        (read_comparison(AnswerLevel.NUMBERS, "0.125 nat"), NEAR),
        (Comparison(level=AnswerLevel.TOKENS), NEAR),
    ):
        assert list(level_findings(facts(pair(comparison, other)))) == []


def test_other_words_differ_at_every_level() -> None:
    made = facts(pair(Comparison(), WORD))
    assert [each.verdict for each in made] == ["inconclusive"] * 3
    assert made[2].largest_nat is None, "numbers of other words have no distance"


def test_the_table_is_shown_where_it_tells_something() -> None:
    assert shown(pair(Comparison(), ONE)) == []
    assert shown(pair(Comparison(), WORD)) == []
    lines = shown(pair(Comparison(level=AnswerLevel.WORDS), NEAR))
    assert any("words" in line and "pass, the gate" in line for line in lines)
    assert any("numbers" in line and "0.25 nat, 2097152 ulp" in line for line in lines)
    assert shown(pair(Comparison(level=AnswerLevel.WORDS), ONE)), "the gate is not the default"


def test_a_verdict_that_rests_on_no_answers_has_no_levels() -> None:
    made = compared(Comparison(), ALL, start("A1", [None], [None]), start("B1", [ONE], [ONE]))
    assert decide(made.starts, IDS, made.rules, complete=True).verdict in {
        Verdict.VOID,
        Verdict.INFRA,
    }
    assert facts(made) == ()


def test_a_start_whose_levels_are_unknown_is_left_out_of_them() -> None:
    made = pair(Comparison(), NEAR)
    old = start("A2", [WORD], [WORD])
    (kept,) = compared(Comparison(), ALL, replace(old, start=replace(old.start, levels={}))).results
    words, _, numbers = facts(replace(made, results=(kept, *made.results)))
    assert (words.verdict, words.differing) == ("pass", 0)
    assert numbers.differing == 2
