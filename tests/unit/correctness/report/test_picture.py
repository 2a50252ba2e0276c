# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.report.differences import differences
from ci_doctor.correctness.report.figures import facts
from ci_doctor.correctness.report.picture import order_tables, start_tables, tables
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import AnswerLevel, Comparison, Policy, Rules
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.load.canonical import digest
from ci_doctor.load.requests import Request
from ci_doctor.model.facts.correctness import (
    ControlOutcome,
    ControlResult,
    PermutationTest,
    ProofReading,
    SharedRead,
    SharedUse,
)
from ci_doctor.model.outcome import Report, Table, Verdict
from ci_doctor.render import text
from tests.support.tables import lines_of
from tests.unit.correctness.experiments import (
    DEATH,
    context,
    decided,
    experiment,
    first_look,
    output,
    result,
)
from tests.unit.correctness.numbered import compared, completion, outputs, start

SAME = experiment(result("A1", "x"), result("B1", "x"))


def shown(made: Experiment, decision: Decision) -> tuple[Table, ...]:
    count = len(made.starts[0].answers) if made.starts else 0
    found = differences(made, decision, [f"r{index}" for index in range(count)])
    about = facts(made, decision, found)
    is_exact = made.comparison.is_exact
    return tuple(tables(about, decision, found, context(count), is_exact=is_exact))


def titled(tables: tuple[Table, ...], title: str) -> list[str]:
    (table,) = (table for table in tables if table.title == title)
    return [" ".join(line.split()) for line in lines_of(table)]


def test_a_regression_shows_the_mix_of_answers_that_carries_it() -> None:
    made = experiment(*first_look("same two", "same three"))
    assert titled(shown(made, decided(made)), "Mix of answers") == [
        "baseline candidate",
        "r1 a 4, b 0 a 0, b 5",
    ]


def test_an_answer_that_is_missing_is_part_of_the_mix_and_rare_ones_are_counted_together() -> None:
    words = ("one", "two", "three", "four", "u", "u")
    made = experiment(
        *(result(f"A{number}", word) for number, word in enumerate(words, start=1)),
        *(result(f"B{number}", "-") for number in range(1, 5)),
    )
    test = decided(experiment(*first_look("same", "x")), 1).test
    decision = replace(decided(made, 1), verdict=Verdict.REGRESSION, test=test)
    (mix,) = titled(shown(made, decision), "Mix of answers")[1:]
    assert mix == "r0 a 1, b 1, e 2, no answer 0, others 2 a 0, b 0, e 0, no answer 4"


def test_archived_starts_have_a_column_of_their_own() -> None:
    made = experiment(*first_look("same two", "same three"))
    old = result("A1", "same three")
    old = replace(old, start=replace(old.start, archived=True))
    decision = decided(made)
    made = replace(made, archived=(old,))
    assert titled(shown(made, decision), "Mix of answers")[1] == "r1 a 4, b 0 a 0, b 5 a 0, b 1"


def test_the_policy_any_draws_no_order() -> None:
    assert list(order_tables(("A1", "B1"), Rules(policy=Policy.ANY))) == []
    assert list(order_tables((), Rules())) == []


def picture(made: Experiment, **changes: Any) -> Table:
    count = len(made.starts[0].answers)
    decision = replace(decided(made, count), risk=None, **changes)
    return shown(made, decision)[0]


def lines(*results: StartResult, **changes: Any) -> tuple[str, ...]:
    return tuple(lines_of(picture(experiment(*results), **changes)))


def test_the_evidence_answers_a_persons_questions_in_their_order() -> None:
    assert lines(
        result("A1", "one same"), result("B1", "two same"), result("A2", "two same"), test=None
    ) == (
        "starts     A1 A2 | B1",
        "answered   2/2 each",
        "clusters   {A1}  {A2 B1}",
        "differing  A/A 1   A/B 0 to 1   of 2 requests",
        "requests   1 stable (1 equal), 1 varying (1 flaky)",
        "kind       1 unknown: with `logprobs` a request tells rounding from a fault",
        "first at   character 0",
        "next       `ci-doctor correctness replay --run ci-doctor-report --request r0 --starts A1,A2`",
    )


@pytest.mark.parametrize("value", [0, 1, True, [1], {"top": 1}])
def test_requests_that_ask_for_log_probabilities_are_not_told_to_ask_for_them(value: Any) -> None:
    made = experiment(result("A1", "one"), result("B1", "two"))
    decision = replace(decided(made), test=None)
    asked = Request(
        id="r0", path="/v1/completions", body={"prompt": "x", "logprobs": value}, line=1
    )
    found = differences(made, decision, ["r0"])
    about = replace(context(1), requests=(asked,))
    table = next(iter(tables(facts(made, decision, found), decision, found, about)))
    assert "kind       1 unknown" in lines_of(table)


def test_starts_that_answered_less_are_told_one_by_one() -> None:
    assert lines(result("A1", "x x"), result("B1", "x -"))[1] == "answered   B1 1/2, the others all"
    assert lines(result("A1", "x -"), result("B1", "x -"))[1] == "answered   1/2 each"


def test_archived_starts_are_marked() -> None:
    archived = [
        replace(each, start=replace(each.start, archived=True))
        for each in (result("A1", "x"), result("A2", "x"))
    ]
    made = replace(experiment(result("B1", "x")), archived=tuple(archived))

    assert lines_of(picture(made))[0] == "starts     none | B1   archived a1 a2 of 1 build"
    today = replace(
        experiment(result("A1", "y"), result("A2", "y"), result("B1", "y")),
        archived=tuple(archived),
    )
    assert lines_of(picture(today))[0] == (
        "starts     A1 A2 | B1   archived a1 a2 of 1 build, set aside: today's baseline answers otherwise"
    )


def test_a_pass_is_quiet() -> None:
    made = experiment(result("A1", "x x"), result("B1", "x x"))
    assert [each.title for each in shown(made, decided(made))] == ["Evidence"]
    words = [line.split()[0] for line in lines_of(picture(made))]
    assert words == ["starts", "answered", "differing"]


def test_what_would_settle_it_comes_before_a_replay() -> None:
    settle, replay = lines(result("A1", "x"), result("B1", "y"), settle="2 more starts")[-2:]
    assert settle == "to go on   2 more starts"
    assert replay.startswith("next")


def test_where_no_start_is_evidence_there_is_no_table() -> None:
    made = experiment(result("A1", "x x", cut_short=True))
    assert shown(made, decided(made)) == ()


def test_starts_that_answered_nothing_are_said_to_agree_on_nothing() -> None:
    told = lines(result("A1", "- -"), result("A2", "- -"))

    assert [line.split()[0] for line in told] == ["starts", "answered", "requests"]


def crowded() -> tuple[Experiment, Decision]:
    """Everything there is to say at once: many starts of long differing identity, passes that differ, missing answers."""
    words = ["same", "one", "two", "three", "x", "y", "z"]
    made = []
    for index, name in enumerate(
        [f"A{number}" for number in range(1, 9)] + [f"B{number}" for number in range(1, 9)]
    ):
        said = " ".join(words[(index // 2 + each) % 7] for each in range(40))
        facts = {f"lib{each}.so": f"{index // 2}.0" for each in range(9)}
        made.append(result(name, said if index else f"- {said[5:]}", passes=2, facts=facts))
    whole = Experiment(
        results=tuple(made),
        outputs={digest(output(word)): output(word) for word in words},
        ending=experiment().ending,
    )
    decision = decided(whole, 20)
    return whole, replace(
        decision,
        test=PermutationTest(disputed=tuple(f"r{each}" for each in range(20)), p=0.0178571, smallest_p=0.0178571, labelings=12870, alpha=0.05, level=0.036),
        risk="a bug that shows in less than 32% of starts can hide behind 8 clean candidate starts (at 95% confidence)",
        settle="7 more starts, which take about 1 h 20 min: raise --budget to 3h, or go on with --resume ci-doctor-report",
    )  # fmt: skip


def test_the_picture_is_at_most_20_lines_of_80_cells_however_much_there_is_to_say() -> None:
    made, decision = crowded()
    table = shown(made, decision)[0]
    report = Report(
        tool_version="1", command="correctness", argv=(), started_at="", duration_s=1.0, verdict=decision.verdict,
        exit_code=0, summary="s", tables=(table,),
    )  # fmt: skip

    printed = text.render(report, width=80).rstrip("\n").split("\n\n")[1].split("\n")

    assert printed[0] == "Evidence"
    assert len(printed) <= 20
    assert max(len(line) for line in printed if "replay" not in line) <= 80, (
        "a command is never broken"
    )
    assert [line.split()[0] for line in lines_of(table)[-4:]] == ["test", "risk", "to", "next"]
    assert any(line.startswith("suspects") for line in lines_of(table))


@pytest.mark.parametrize("passes", [1, 2])
def test_passes_that_differ_are_counted_by_start(passes: int) -> None:
    told = lines(result("A1", "x y same same"[: 9 * passes], passes=passes), result("B1", "x x same same"[: 9 * passes], passes=passes))  # fmt: skip

    found = [line for line in told if line.startswith("passes")]
    assert found == (
        ["passes     requests that differ inside a start: A1 1"] if passes == 2 else []
    )


def test_passes_that_the_gate_holds_for_the_same_are_counted_byte_for_byte() -> None:
    one, near = completion("a", -1.0), completion("a", -1.25)
    starts = (start("A1", [one, one]), start("B1", [one, near]))
    made = compared(Comparison(level=AnswerLevel.WORDS), outputs(one, near), *starts)

    assert "passes     requests that differ inside a start, byte for byte: B1 1" in lines_of(
        picture(made)
    )


def test_what_starts_show_beside_their_answers_has_tables_of_its_own() -> None:
    one, other = result("A1", "x"), result("B1", "x")
    one = replace(one, start=replace(one.start, devices="1"))
    read = SharedRead(path="/tmp/cache", writer="A1")
    written = ("/tmp/cache", "/tmp/pip-unpack-1/x")
    use = SharedUse(written=written, own=written[:1], count=5, read=(read,), unseen=("too many",))
    proof = ProofReading(service="vllm", met=True, metric="hits", before=0, after=3)
    control = ControlOutcome(result=ControlResult.CHANGED, request="r0")
    start = replace(other.start, devices="0", control=control)
    made = experiment(one, replace(other, shared=use, proof=(proof,), start=start))
    told = facts(made, decided(made, 1), ())
    tables = tuple(start_tables(told, control=True))
    assert titled(tables, "Devices")[1:] == ["0 B1", "1 A1"]
    assert titled(tables, "Proof")[1:] == ["B1 vllm hits 0 -> 3, rose by 3 (> 0)"]
    assert titled(tables, "Shared files") == [
        "B1 read /tmp/cache, which changed while A1 ran",
        "B1 may have read more: too many",
    ]
    assert titled(tables, "Changed files") == [
        "in their folders /tmp/cache",
        "owner unknown 4 files in places that other programs use",
    ]
    assert titled(tables, "Control")[1:] == ["B1 r0 with a changed prompt got another answer"]
    (off,) = start_tables(facts(SAME, decided(SAME, 1), ()), control=False)
    assert lines_of(off)[0].startswith("off (control = false)")


def test_of_a_candidate_that_never_answered_nothing_is_called_changed() -> None:
    told = lines(result("A1", "one two"), result("B1", "- -", failure=DEATH), test=None)
    assert "requests  none was compared: an arm has answered nothing" in told


def test_answers_of_some_passes_alone_are_told_and_not_called_nothing() -> None:
    deaths = [result(f"B{n}", "one - - -", passes=2, failure=DEATH) for n in range(1, 6)]
    lives = [result(f"A{n}", "one one two two", passes=2) for n in range(1, 5)]
    made = experiment(*lives, *deaths)
    told = shown(made, decided(made))

    evidence = titled(told, "Evidence")
    assert "in part B1 1, B2 1, B3 1, B4 1 and 1 more: not in all passes, so left out" in evidence
    assert "requests none was compared: an arm has answered none in all passes" in evidence
    mix = titled(told, "Mix of answers")
    assert mix[1] == "r0 a 4, not in all passes 0 a 0, not in all passes 5"
    assert "no answer" not in " ".join(mix)


def test_an_answer_that_no_pass_holds_is_not_said_to_be_in_part() -> None:
    whole = [result(f"A{n}", "one one", passes=2) for n in range(1, 5)]
    made = experiment(*whole, *[result(f"B{n}", "- -", passes=2) for n in range(1, 6)])
    told = " ".join(titled(shown(made, decided(made)), "Evidence"))

    assert "an arm has answered nothing" in told
    assert "in part" not in told
