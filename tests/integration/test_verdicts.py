# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor correctness` makes of its starts: the schedule, early ends, what it costs, and how it goes on."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_correctness import (
    KV,
    ONE_PAIR,
    REQUESTS,
    Bench,
    bench,
    check,
    until,
)
from tests.support.cli import BARE, begin, inside
from tests.support.orders import SEED

pytestmark = pytest.mark.integration
__all__ = ["bench"]


def order(bench: Bench) -> str:
    """The arms in the order in which their starts were made."""
    return "".join(attempt["name"][0] for attempt in bench.report["attempts"])


def arms(
    bench: Bench, baseline: str, candidate: str, more: str = "", of_candidate: str = ""
) -> None:
    """Write a configuration with both arms."""
    (bench.directory / "ci-doctor.toml").write_text(f"""
        [correctness]
        requests = "requests.jsonl"
        {more}
        [correctness.baseline]
        command = {json.dumps(bench.server(baseline))}
        [correctness.candidate]
        command = {json.dumps(bench.server(candidate))}
        {of_candidate}
    """)


def run(bench: Bench, *more: str, env: dict[str, str | None] | None = None) -> Any:
    return inside(
        "correctness",
        "--report-dir",
        bench.reports,
        *more,
        cwd=bench.directory,
        env=env,
    )


# --- verdicts ---


@pytest.mark.nightly
def test_a_baseline_that_never_answers_twice_alike_cannot_be_compared(bench: Bench) -> None:
    check(bench, bench.compare("never-twice", "never-twice"), "nondeterministic", 85)
    assert len(order(bench)) == 9
    assert "on 1 of 4 requests no start ever gives an answer twice" in bench.report["summary"]


@pytest.mark.nightly
def test_beside_answers_that_are_never_the_same_a_regression_is_found(bench: Bench) -> None:
    check(bench, bench.compare("never-twice", "never-twice flip-other"), "regression", 1)


def test_a_pass_says_what_it_cannot_exclude(bench: Bench) -> None:
    ran = bench.compare("", "")
    check(bench, ran, "pass", 0)
    assert "a fault that shows in less than 98% of starts" in " ".join(ran.out.split())
    assert bench.report["facts"]["rare_bug_bound"] == pytest.approx(0.975)
    assert "baseline (baseline) and candidate (candidate): 2 to 16 starts" in ran.err


@pytest.mark.nightly
def test_the_gates_level_decides_whether_numbers_may_differ(bench: Bench) -> None:
    ran = bench.compare("", "logprobs", "--compare", "words")
    check(bench, ran, "pass", 0)
    words, tokens, numbers = bench.report["facts"]["levels"]
    assert (words["gate"], words["verdict"], tokens["verdict"]) == (True, "pass", "pass")
    assert (numbers["differing"], numbers["largest_ulp"]) == (REQUESTS, 1)
    assert numbers["verdict"] == "inconclusive", "two starts are too few for it"
    assert "in words, in 1 baseline" in bench.report["summary"]

    within = bench.compare("", "logprobs", "--limit", "1 ulp")
    check(bench, within, "pass", 0)
    assert "within 1 ulp" in bench.report["summary"]


def test_a_limit_of_another_form_is_refused_before_anything_is_started(bench: Bench) -> None:
    ran = bench.compare("", "", "--limit", "0.01")
    assert ran.code == 2
    assert '"0.01 nat" or limit = "4 ulp"' in " ".join(ran.err.split())
    assert not (bench.reports / "samples.jsonl").exists()


@pytest.mark.nightly
def test_more_candidate_starts_can_be_asked_for_before_a_pass(bench: Bench) -> None:
    check(bench, bench.compare("", "", "--min-candidate-starts", "4"), "pass", 0)
    assert sorted(order(bench)) == list("ABBBB")
    assert "61%" in bench.report["facts"]["risk"]


@pytest.mark.nightly
def test_the_policy_any_passes_what_it_names(bench: Bench) -> None:
    check(bench, bench.compare("", "flip@1", "--policy", "any"), "pass", 0)
    assert order(bench) == "ABAB"
    assert "87.5%" in bench.report["facts"]["risk"]
    check(bench, bench.compare("", "flip", "--policy", "any"), "inconclusive", 86)


@pytest.mark.nightly
def test_what_is_undecided_can_be_let_through_and_keeps_its_name(bench: Bench) -> None:
    check(
        bench, bench.compare("", "flip", *ONE_PAIR, "--on-inconclusive", "pass"), "inconclusive", 0
    )
    assert "let through" in bench.report["summary"]
    check(bench, bench.compare("empty", "", "--on-inconclusive", "pass"), "void", 86)


# --- passes, resets, caches, proof ---


def test_two_passes_are_the_default_and_a_difference_between_them_is_told(bench: Bench) -> None:
    arms(bench, "remembers", "remembers")
    check(bench, run(bench), "pass", 0)
    assert len(bench.samples) == 2 * 2 * 4
    assert bench.report["facts"]["within"] == {"A1": 4, "B1": 4}


def test_a_server_can_be_told_to_forget_between_two_passes(bench: Bench) -> None:
    arms(bench, "remembers", "remembers", 'reset = "/reset"')
    check(bench, run(bench), "pass", 0)
    assert bench.report["facts"]["within"] == {"A1": 0, "B1": 0}


def test_a_server_that_cannot_forget_makes_all_void(bench: Bench) -> None:
    arms(bench, "", "no-reset", 'reset = "/reset"')
    check(bench, run(bench), "void", 86)
    assert "/reset was answered with HTTP 404" in bench.report["summary"]


@pytest.mark.nightly
def test_a_server_that_forgets_at_the_second_request_is_compared(bench: Bench) -> None:
    arms(bench, "remembers", "remembers holds-blocks-once", 'reset = "/reset"')
    check(bench, run(bench), "pass", 0)
    assert bench.report["facts"]["within"] == {"A1": 0, "B1": 0}


@pytest.mark.nightly
def test_a_server_that_says_it_has_not_forgotten_makes_all_void(bench: Bench) -> None:
    arms(bench, "", "holds-blocks", 'reset = "/reset"\nrequest_timeout = "500ms"')
    check(bench, run(bench), "void", 86)
    assert (
        "`success` is false in every answer to the reset request /reset" in bench.report["summary"]
    )


@pytest.mark.parametrize(
    ("setting", "compiling"),
    [("fresh", ["A1", "B1"]), ("warm-up", ["A0"])],
    ids=["fresh", "warm-up"],
)
@pytest.mark.gate(1)
def test_no_start_is_compared_that_finds_other_caches(
    bench: Bench, setting: str, compiling: list[str]
) -> None:
    arms(bench, "caches", "caches", f'caches = "{setting}"')
    check(bench, run(bench), "pass", 0)
    logs = sorted(bench.reports.glob("logs/*/*.log"))
    assert [
        log.parent.name for log in logs if "kernels were compiled" in log.read_text()
    ] == compiling
    assert bench.report["facts"]["caches"] == setting
    assert not (bench.reports / ".ci-doctor-caches").exists()


@pytest.mark.parametrize(
    ("trait", "line", "setting", "verdict", "code"),
    [
        ("tells-secret-asked", "my key is .+", "", "pass", 0),
        ("tells-secret", "my key is .+", ", at_start = true", "pass", 0),
        # What is logged before the first request is not the work of any request.
        ("tells-secret", "my key is .+", "", "void", 86),
        ("tells-secret", "no such line", ", at_start = true", "void", 86),
    ],
)
@pytest.mark.gate(1)
def test_a_line_of_the_log_can_be_the_proof(
    bench: Bench, trait: str, line: str, setting: str, verdict: str, code: int
) -> None:
    arms(bench, "", trait, of_candidate=f'proof = [{{ log = "{line}"{setting} }}]')
    check(bench, run(bench), verdict, code)
    (proof,) = bench.report["facts"]["proof"]
    assert (proof["log"], proof["met"]) == (line, code == 0)
    assert ("my key is" in (proof["text"] or "")) is (line != "no such line")
    assert ("before the first request" in bench.report["summary"]) is (
        code != 0 and proof["line"] is not None
    )
    assert "sk-4242" not in (bench.reports / "starts.jsonl").read_text()


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        ("{}", "either `metric` or `log`"),
        ('{ metric = "x", log = "y" }', "either `metric` or `log`"),
        ('{ log = "(" }', "no regular expression"),
        ('{ metric = "x", at_start = true }', "`at_start` does not belong there"),
        ('{ metric = "x", service = "candidat" }', "did you mean `candidate`"),
    ],
)
@pytest.mark.gate(1)
def test_a_proof_that_cannot_be_is_found_before_anything_is_started(
    bench: Bench, proof: str, said: str
) -> None:
    arms(bench, "", "", of_candidate=f"proof = [{proof}]")
    ran = run(bench)
    assert ran.code == 2, ran
    assert said in " ".join(ran.err.split())


@pytest.mark.nightly
def test_a_request_that_is_turned_away_is_asked_again(bench: Bench) -> None:
    check(bench, bench.compare("", "throttles"), "pass", 0)
    assert {sample["meta"].get("tries") for sample in bench.samples} == {None, 2}


# --- time ---


@pytest.mark.nightly
def test_a_budget_that_is_too_short_for_the_schedule_says_what_is_left_open(bench: Bench) -> None:
    # The first start takes 2 s at least, so eight more do not fit. The second never ends by itself.
    ran = bench.compare("waits@1", "stuck flip", "--budget", "16s")
    check(bench, ran, "inconclusive", 86)
    report = bench.report
    assert "correctness/budget-spent" in bench.rules()
    assert order(bench) == "AB"
    assert "--resume" in report["facts"]["settle"]
    assert re.search(r"about \d+ of at most \d+ more starts of .* fit", ran.err)
    (bench.directory / "go").touch()
    again = inside(*words_of(report["facts"]["settle"]), cwd=bench.directory)
    check(bench, again, "regression", 1)
    assert len(order(bench)) == 9


def words_of(settle: str) -> list[str]:
    """The command that a sentence ends with, but for `ci-doctor`."""
    import shlex

    return shlex.split(settle[settle.index("ci-doctor ") + len("ci-doctor ") :])


def test_the_budget_is_the_step_s_own_time_out_less_a_margin(bench: Bench) -> None:
    arms(bench, "", "")
    ran = run(bench, env={"BUILDKITE_TIMEOUT": "10"})
    assert "the step's timeout of 10 min" in ran.err
    assert " left of " in ran.err


# --- going on ---


def started(process: Any, name: str) -> None:
    """Read what it tells until the start `name` has begun."""
    assert process.stderr
    while line := process.stderr.readline():
        if line.startswith(f"{name}  ".encode()) and b" ready " in line:
            return
    raise AssertionError(name)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.gate(1)
def test_a_run_that_was_cut_off_goes_on_without_repeating_a_finished_start(
    bench: Bench, number: int
) -> None:
    process = bench.begin("slow", "slow flip", "--concurrency", "1")
    started(process, "A2")
    process.send_signal(number)
    process.communicate()
    before = [
        json.loads(line)["result"]["start"]
        for line in (bench.reports / "starts.jsonl").read_text().splitlines()
    ]
    assert [(record["arm"], record["number"]) for record in before] == [
        ("baseline", 1),
        ("candidate", 1),
    ]
    ran = inside(
        *again(bench, "slow", "slow flip", "--concurrency", "1"),
        cwd=bench.directory,
        # Nobody names the seed: it is the one in run.json, and the order goes on.
        env={"CI_DOCTOR_CORRECTNESS_SEED": None},
    )
    check(bench, ran, "regression", 1)
    assert "resuming with A1 B1" in ran.err
    assert bench.report["facts"]["schedule"]["seed"] == SEED
    assert ran.err.count(" ready after ") == 7
    assert len(bench.samples) == 9 * 4
    names = {(sample["arm"], sample["start"], sample["id"]) for sample in bench.samples}
    assert len(names) == 9 * 4


def test_a_death_in_a_run_that_a_signal_ends_is_no_evidence(bench: Bench) -> None:
    (bench.directory / "ci-doctor.toml").write_text(f"""
        [services.kv]
        command = {json.dumps([*BARE, "-c", KV, "{port}"])}
        ready = "tcp://127.0.0.1:{{port}}"
        [services.plain]
        command = {json.dumps(bench.server())}
        [services.vllm]
        command = {json.dumps(bench.server("silent deaf tell=1"))}
        [correctness]
        requests = "requests.jsonl"
        baseline = {{ services = ["plain"] }}
        candidate = {{ services = ["kv", "vllm"] }}
    """)
    os.mkfifo(bench.directory / "told")
    env = {"TOLD": str(bench.directory / "told")}
    process = begin("correctness", "--report-dir", bench.reports, cwd=bench.directory, env=env)
    until(bench, process, "vllm stopping")  # kv is dead, and vllm takes its time
    process.send_signal(signal.SIGTERM)
    process.communicate()
    records = [
        json.loads(line)["result"]["start"]
        for line in (bench.reports / "starts.jsonl").read_text().splitlines()
    ]
    assert [(record["arm"], record["number"]) for record in records] == [("baseline", 1)]


def again(bench: Bench, *arguments: str) -> list[str]:
    """The command line of a comparison that goes on."""
    line = bench.words(*arguments)
    place = line.index("--report-dir")
    return [*line[:place], "--resume", *line[place + 1 :]]


def test_a_run_that_is_complete_is_only_decided_again(bench: Bench) -> None:
    check(bench, bench.compare("", ""), "pass", 0)
    ran = inside(*again(bench, "", ""), cwd=bench.directory)
    check(bench, ran, "pass", 0)
    assert "ready after" not in ran.err


@pytest.mark.parametrize("name", ["out", "./out/", "link"])
@pytest.mark.nightly
def test_the_directory_of_the_run_may_be_named_twice(bench: Bench, name: str) -> None:
    check(bench, bench.compare("", ""), "pass", 0)
    (bench.directory / "link").symlink_to("out")
    line = ["--resume", name, *bench.words("", "")[1:]]
    ran = inside("correctness", *line, cwd=bench.directory)
    check(bench, ran, "pass", 0)
    assert "ready after" not in ran.err


@pytest.mark.nightly
def test_a_run_does_not_go_on_in_another_directory(bench: Bench) -> None:
    check(bench, bench.compare("", ""), "pass", 0)
    before = (bench.reports / "report.json").read_bytes()
    line = ["--resume", "elsewhere", *bench.words("", "")[1:]]
    ran = inside("correctness", *line, cwd=bench.directory)
    assert ran.code == 2, ran
    assert "leave --report-dir out, or name the same directory" in " ".join(ran.err.split())
    assert (bench.reports / "report.json").read_bytes() == before
    assert not (bench.directory / "elsewhere").exists()


@pytest.mark.nightly
def test_another_run_is_not_gone_on_with(bench: Bench) -> None:
    check(bench, bench.compare("", ""), "pass", 0)
    samples = bench.samples
    for change, said in (
        (("", "flip"), "the command of the candidate changed"),
        (("", "", "--passes", "2"), "passes 1 -> 2"),
    ):
        ran = inside(*again(bench, *change), cwd=bench.directory)
        assert ran.code == 2, ran
        assert said in " ".join(ran.err.split())
    assert bench.samples == samples


def test_where_there_is_no_run_there_is_nothing_to_go_on_with(bench: Bench) -> None:
    ran = inside(*again(bench, "", ""), cwd=bench.directory)
    assert ran.code == 2, ran
    assert "no run to resume" in ran.err


# --- the archive ---


COMMIT = "c0ffee0" + "1" * 33


def archived(bench: Bench, baseline: str, candidate: str, *more: str, trusted: bool = True) -> Any:
    env = {
        "BUILDKITE": "true", "BUILDKITE_JOB_ID": "0190", "BUILDKITE_BRANCH": "main", "BUILDKITE_PULL_REQUEST": "false" if trusted else "7",
        "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main", "BUILDKITE_COMMIT": COMMIT,
    }  # fmt: skip
    return bench.compare(baseline, candidate, "--archive", "archive", *more, env=dict(env))


def test_a_baseline_that_a_trusted_build_has_archived_needs_no_start(bench: Bench) -> None:
    check(bench, archived(bench, "", ""), "pass", 0)
    assert sorted(order(bench)) == ["A", "B"]
    ran = archived(bench, "", "", trusted=False)
    check(bench, ran, "pass", 0)
    assert order(bench) == "B"
    assert "1 archived baseline start of 1 independent build found" in ran.err


@pytest.mark.nightly
def test_an_archived_baseline_finds_a_regression_and_today_s_baseline_stands_beside_it(
    bench: Bench,
) -> None:
    check(bench, archived(bench, "", ""), "pass", 0)
    # A build that may write adds to an archive of fewer than six builds.
    check(bench, archived(bench, "", "", "--min-candidate-starts", "4"), "pass", 0)
    assert order(bench).count("A") == 1
    assert len(list((bench.directory / "archive").rglob("*.gz"))) == 2
    check(bench, archived(bench, "", "flip", trusted=False), "regression", 1)
    assert order(bench)[0] == "B"
    assert "A" in order(bench)


def test_an_untrusted_build_leaves_nothing_in_the_archive(bench: Bench) -> None:
    check(bench, archived(bench, "", "", trusted=False), "pass", 0)
    assert not [path for path in (bench.directory / "archive").rglob("*") if path.is_file()]
    assert "pull request 7" in json.dumps(bench.report["facts"]["archive"])


@pytest.mark.nightly
def test_starts_of_another_identity_are_not_used(bench: Bench) -> None:
    check(bench, archived(bench, "", ""), "pass", 0)
    ran = archived(bench, "slow", "")
    check(bench, ran, "pass", 0)
    assert "no archived baseline of this identity in archive yet" in ran.err
    assert sorted(order(bench)) == ["A", "B"]


def test_a_damaged_archive_is_never_believed(bench: Bench) -> None:
    check(bench, archived(bench, "", ""), "pass", 0)
    (kept,) = Path(bench.directory, "archive").rglob("*.jsonl.gz")
    kept.write_bytes(kept.read_bytes()[:-9])
    check(bench, archived(bench, "", ""), "pass", 0)
    assert sorted(order(bench)) == ["A", "B"]
    assert "correctness/archive-unreadable" in bench.rules()
