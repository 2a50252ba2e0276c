# SPDX-License-Identifier: Apache-2.0
"""Where the arms differ: `ci-doctor correctness` against real servers whose fault shows under one condition only."""

import json
import shlex
import signal
from typing import Any

import pytest

from tests.integration.test_correctness import LIMIT_S, ONE_PAIR, Bench, bench, check
from tests.support.cli import Ran, begin, doctor

pytestmark = pytest.mark.integration
__all__ = ["bench"]

ON: dict[str, str | None] = {"CI_DOCTOR_CORRECTNESS_LOCALISE": None}
FIRST = "p0 in a prompt of thirty-two let"


def compared(bench: Bench, baseline: str, candidate: str, *more: str, most: str = "8") -> Ran:
    """A comparison of two requests that localises what differs with at most so many starts."""
    lines = [
        json.dumps({"id": f"r{number}", "body": {"prompt": prompt, "temperature": 0}})
        for number, prompt in enumerate((FIRST, "p1"))
    ]
    (bench.directory / "requests.jsonl").write_text("\n".join(lines) + "\n")
    env = {**ON, "CI_DOCTOR_CORRECTNESS_LOCALISE_STARTS": most}
    return bench.compare(baseline, candidate, *more, env=env)


def localised(bench: Bench) -> dict[str, Any]:
    facts: dict[str, Any] = bench.report["facts"]["localisation"]
    return facts


def results(bench: Bench) -> dict[str, str]:
    return {each["condition"]: each["result"] for each in localised(bench)["conditions"]}


def again(bench: Bench, *more: str) -> Ran:
    """Run the command for the smallest condition."""
    _, *words = shlex.split(localised(bench)["command"])
    return doctor(*words, *more, cwd=bench.directory, timeout=LIMIT_S)


def test_a_fault_of_one_prompt_differs_alone_and_in_no_shorter_prompt(bench: Bench) -> None:
    ran = compared(bench, "", "flip")
    check(bench, ran, "regression", 1)
    assert localised(bench)["smallest"] == "r1 alone, one pass"
    assert results(bench)["r1 alone, first 1 of 2 characters, one pass"] == "equal"
    # The request, then half of its prompt; no start of these counts for the verdict.
    names = [each["start"] for each in localised(bench)["starts"]]
    assert names == ["A5", "B6", "A6", "B7"]
    assert bench.report["facts"]["starts"] == {"baseline": 4, "candidate": 5}
    assert "--only r1 --concurrency 1 --passes 1" in localised(bench)["command"]
    for text in (ran.out, (bench.reports / "report.md").read_text()):
        assert "Where it differs" in text
        assert "correctness/localised" in text
    assert "Where it differs" in (bench.reports / "report.html").read_text()


@pytest.mark.nightly
def test_a_fault_of_long_prompts_is_shown_by_the_shortest_half_that_has_it(bench: Bench) -> None:
    check(bench, compared(bench, "", "long=10"), "regression", 1)
    assert localised(bench)["smallest"] == "r0 alone, first 16 of 32 characters, one pass"
    assert localised(bench)["confirmed"]
    assert results(bench)["r0 alone, first 8 of 32 characters, one pass"] == "equal"
    lines = (bench.reports / "localise" / "smallest-request.jsonl").read_text().splitlines()
    assert [json.loads(line)["body"]["prompt"] for line in lines] == [FIRST[:16]]
    ran = again(bench, *ONE_PAIR)
    assert "1 of 1 answers" in ran.out, ran
    # The evidence of the first run is still there.
    assert bench.report["verdict"] == "regression"


@pytest.mark.nightly
def test_a_fault_of_what_a_server_remembers_takes_a_second_pass(bench: Bench) -> None:
    check(bench, compared(bench, "", "remembers", "--passes", "2", most="6"), "regression", 1)
    assert localised(bench)["smallest"] == "r0 alone, second pass"
    shown = results(bench)
    assert shown["r0 alone, one pass"] == "equal"
    assert shown["r0 after r1, one pass"] == "equal"
    assert shown["all 2 requests, 2 at once, one pass"] == "equal"


@pytest.mark.nightly
def test_a_fault_of_batches_differs_only_at_the_concurrency_of_the_run(bench: Bench) -> None:
    check(bench, compared(bench, "", "batched"), "regression", 1)
    assert localised(bench)["smallest"] == "all 2 requests, 2 at once, one pass"
    shown = results(bench)
    assert shown["r0 alone, one pass"] == "equal"
    assert shown["all 2 requests, one at a time, one pass"] == "equal"
    assert len(localised(bench)["starts"]) == 4


def test_a_fault_that_begins_with_a_request_is_localised_to_their_number(bench: Bench) -> None:
    check(bench, compared(bench, "", "from=3", "--passes", "2", most="6"), "regression", 1)
    assert localised(bench)["smallest"] == "r0 alone, pass 3"
    shown = results(bench)
    assert shown["r0 alone, second pass"] == "equal"
    assert shown["all 2 requests, 2 at once, one pass"] == "equal"


@pytest.mark.nightly
def test_a_fault_after_one_certain_request_names_both(bench: Bench) -> None:
    check(bench, compared(bench, "", "after-p0", "--concurrency", "1", most="6"), "regression", 1)
    assert localised(bench)["smallest"] == "r1 after r0, one pass"
    lines = (bench.reports / "localise" / "smallest-request.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["r0", "r1"]
    ran = again(bench, *ONE_PAIR)
    assert "1 of 2 answers" in ran.out, ran


def test_in_a_flaky_environment_an_equal_pair_is_not_taken_for_proof(bench: Bench) -> None:
    # The starts that are made to localise it are none of these.
    check(bench, compared(bench, "flip@1", "flip@2", most="2"), "flaky", 0)
    (finding,) = (
        each for each in bench.report["findings"] if each["rule"] == "correctness/localised"
    )
    assert finding["summary"].endswith("which may be chance")
    assert localised(bench)["differing_pairs"] < localised(bench)["pairs"]
    assert len(localised(bench)["starts"]) == 2
    assert localised(bench)["stopped"].startswith("the limit of 2 starts is reached")
    assert results(bench)["all 2 requests, one at a time, one pass"] == "not tried"


def test_a_start_that_dies_while_it_is_localised_changes_nothing_but_the_report(
    bench: Bench,
) -> None:
    check(bench, compared(bench, "flip@1", "flip@2 dies@3"), "flaky", 0)
    assert "B3 failed" in localised(bench)["stopped"]
    assert localised(bench)["command"] is None
    assert set(results(bench).values()) == {"not tried", "differs"}


def test_a_signal_ends_the_search_and_not_the_verdict(bench: Bench) -> None:
    words = bench.words("flip@1", "flip@2 stuck@3")
    running = begin(*words, cwd=bench.directory, env=ON)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith(b"B3  candidate started"):
            running.send_signal(signal.SIGTERM)
            break
    running.communicate(timeout=LIMIT_S)
    assert (bench.report["verdict"], running.returncode) == ("flaky", 0)
    assert localised(bench)["stopped"] == "interrupted by SIGTERM"


def test_what_passes_is_not_localised_and_an_earlier_localisation_goes(bench: Bench) -> None:
    old = bench.reports / "localise" / "samples.jsonl"
    old.parent.mkdir(parents=True)
    old.write_text("")
    check(bench, compared(bench, "", ""), "pass", 0)
    assert bench.report["facts"]["localisation"] is None
    assert len(bench.report["attempts"]) == 2
    assert not old.exists()
