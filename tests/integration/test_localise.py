# SPDX-License-Identifier: Apache-2.0
"""Where the arms differ: `ci-doctor correctness` against real servers whose fault shows under one condition only."""

import json
import shlex
import signal
from typing import Any

import pytest

from tests.integration.test_correctness import LIMIT_S, ONE_PAIR, Bench, bench, check
from tests.support.cli import Ran, begin, inside

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
    return inside(*words, *more, cwd=bench.directory)


def test_a_fault_of_one_prompt_is_named_with_starts_that_have_it_and_one_that_has_not(
    bench: Bench,
) -> None:
    ran = compared(bench, "", "flip", *ONE_PAIR)
    check(bench, ran, "inconclusive", 86)
    assert localised(bench)["cause"] == "requests with the prompt of r1 differ"
    assert localised(bench)["smallest"] == "r1 alone"
    assert localised(bench)["without"]
    # No start of these counts for the verdict.
    assert bench.report["facts"]["starts"] == {"baseline": 1, "candidate": 1}
    assert "--only r1 --concurrency 1 --passes 1" in localised(bench)["command"]
    for text in (ran.out, (bench.reports / "report.md").read_text()):
        assert "Where it differs" in text
        assert "correctness/localised" in text
    assert "Where it differs" in (bench.reports / "report.html").read_text()


@pytest.mark.parametrize(
    ("fault", "cause", "more"),
    [
        ("long=10", "prompts of 10 characters or more differ", ()),
        ("remembers", "if the same prompt came before", ("--passes", "2")),
        ("batched", "if 2 or more requests are under way at once", ()),
        ("from=3", "from the 3rd request of a start on", ("--passes", "2")),
    ],
)
@pytest.mark.nightly
def test_the_cause_of_a_fault_is_named(
    bench: Bench, fault: str, cause: str, more: tuple[str, ...]
) -> None:
    compared(bench, "", fault, *more, *ONE_PAIR, most="16")
    assert cause in localised(bench)["cause"], localised(bench)
    ran = again(bench, *ONE_PAIR)
    assert "never answered as" in ran.out, ran
    # The evidence of the first run is still there.
    assert localised(bench)["cause"]


@pytest.mark.nightly
def test_a_request_before_is_told_where_its_copies_do_the_same(bench: Bench) -> None:
    compared(bench, "", "after-p0", "--concurrency", "1", *ONE_PAIR, most="16")
    assert localised(bench)["smallest"] == "r1 after r0"
    assert localised(bench)["cause"] in {None, "requests with the prompt of r1 differ after r0"}
    assert results(bench)["r1 after r0"] == "differs"


@pytest.mark.nightly
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
    assert list(results(bench).values())[-1] == "not tried"


@pytest.mark.nightly
def test_a_start_that_dies_while_it_is_localised_changes_nothing_but_the_report(
    bench: Bench,
) -> None:
    check(bench, compared(bench, "flip@1", "flip@2 dies@3"), "flaky", 0)
    assert "B3 failed" in localised(bench)["stopped"]
    assert localised(bench)["command"] is None
    assert set(results(bench).values()) == {"not tried"}


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
