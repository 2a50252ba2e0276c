# SPDX-License-Identifier: Apache-2.0
"""Tests of plans from a configuration, and of the budget of a run."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.config.loading import load_config
from ci_doctor.correctness.pace import Budget, Pace, command_line, default_budget
from ci_doctor.correctness.planning import parse_arm_variables, read_settings, rules_of, widening
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, CorrectnessSettings, Policy, Rules
from ci_doctor.errors import ConfigError, UsageError
from tests.unit.correctness.experiments import DEATH, result
from tests.unit.correctness.plans import BOTH, NOTHING, planned


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("candidate:X", "not ARM:NAME=VALUE"),
        ("X=1", "not ARM:NAME=VALUE"),
        ("candidate:=1", "not ARM:NAME=VALUE"),
        ("candidat:X=1", "unknown arm `candidat`"),
    ],
)
def test_a_variable_without_an_arm_or_a_name_is_refused(word: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arm_variables([word])
    assert said in caught.value.message


def test_a_value_may_hold_anything() -> None:
    parsed = parse_arm_variables(
        ["candidate:X=a=b:c", "candidate:Y=", "baseline:X=1", "baseline:X=2"]
    )
    assert parsed == {Arm.BASELINE: {"X": "2"}, Arm.CANDIDATE: {"X": "a=b:c", "Y": ""}}


@pytest.mark.parametrize("address", ["s3://bucket/baselines", "file:///mnt/baselines"])
def test_an_address_of_an_archive_is_not_taken_for_a_path(tmp_path: Path, address: str) -> None:
    (tmp_path / "ci-doctor.toml").write_text(f'[correctness]\narchive = "{address}"\n')
    loaded = load_config(tmp_path / "ci-doctor.toml", tmp_path)

    assert read_settings(loaded, {}, {}, NOTHING).archive == address


def test_a_missing_requests_file_names_the_line_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.jsonl").touch()
    (tmp_path / "ci-doctor.toml").write_text(
        '[correctness]\nretries = 2\nrequests = "prompt.jsonl"\n'
    )
    with pytest.raises(
        UsageError, match=r"prompt\.jsonl: .* named by ci-doctor\.toml:3$"
    ) as caught:
        read_settings(load_config(None, tmp_path), {}, {}, NOTHING)
    assert caught.value.hint == "did you mean `prompts.jsonl`?"


def test_an_arm_is_its_services_with_its_own_variables_on_top(tmp_path: Path) -> None:
    made = planned(tmp_path)
    assert made.arms[Arm.BASELINE].names == ("vllm",)
    assert made.arms[Arm.CANDIDATE].names == ("kv", "vllm")
    assert made.arms[Arm.BASELINE].specs["vllm"].env == {"MODE": "shared"}
    assert made.arms[Arm.CANDIDATE].specs["vllm"].env == {"MODE": "own"}


def test_a_command_takes_the_place_of_services_and_a_variable_goes_on_top(tmp_path: Path) -> None:
    variables = {Arm.BASELINE: {}, Arm.CANDIDATE: {"MODE": "typed", "MORE": "1"}}
    made = planned(tmp_path, commands={Arm.BASELINE: "sleep {port} 9"}, variables=variables)
    assert made.arms[Arm.BASELINE].names == ("baseline",)
    assert made.arms[Arm.BASELINE].specs["baseline"].command == "sleep {port} 9"
    assert made.arms[Arm.CANDIDATE].specs["vllm"].env == {"MODE": "typed", "MORE": "1"}


def test_ready_is_for_the_service_that_answers_and_start_timeout_for_all(tmp_path: Path) -> None:
    specs = planned(tmp_path, ready="/v1/models", start_timeout="7s").arms[Arm.CANDIDATE].specs
    assert (specs["kv"].ready, specs["vllm"].ready) == ("/health", "/v1/models")
    assert specs["kv"].start_timeout_s() == specs["vllm"].start_timeout_s() == 7


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('proof = [{ metric = "hits", log = "x" }]', "either `metric` or `log`"),
        ('proof = [{ log = "(" }]', "is no regular expression"),
        ('proof = [{ metric = "hits", service = "vlm" }]', "starts no service `vlm`"),
        ('reset = "reset"', "`reset` is not the path of a URL"),
        ('reset = "//elsewhere/reset"', "is not the path of a URL"),
    ],
)
def test_a_proof_or_a_reset_that_cannot_work_is_a_mistake(
    tmp_path: Path, line: str, message: str
) -> None:
    services = BOTH.replace('candidate = { services = ["kv", "vllm"], env = { MODE = "own" } }', "")
    text = f'{services}[correctness.candidate]\nservices = ["kv", "vllm"]\n{line}\n'
    with pytest.raises(UsageError) as caught:
        planned(tmp_path, text)
    assert message in caught.value.message


@pytest.mark.parametrize("budget", ["1ms", "1s", "3s", "6s", "60s", "25m"])
def test_the_deadline_leaves_room_for_stopping_and_for_the_report(
    tmp_path: Path, budget: str
) -> None:
    made = planned(tmp_path, budget=budget)
    end = 100.0 + seconds_above_zero(budget, "budget")
    assert made.deadline + made.grace_s < end
    assert end - made.deadline <= 12
    assert 0 < made.grace_s <= 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the baseline is missing"),
        ("[correctness.baseline]\n[correctness.candidate]", "the baseline is missing"),
        (BOTH.replace('"kv", "vllm"]', '"kv", "vlm"]'), "no service is named `vlm`"),
        (BOTH.replace("candidate = { services", 'candidate = { command = "sleep {port}", services'), "both `services` and `command`"),
        (BOTH.replace("sleep {port}", "slep {port}"), "command not found: slep"),
        (BOTH.replace("[correctness]", '[correctness]\nbudget = "soon"'), "budget: not a duration"),
        (BOTH.replace("[correctness]", "[correctness]\nrequest_timeout = 0"), "request_timeout must be more than 0"),
        (BOTH.replace('command = "sleep {port}"', 'command = "sleep {port}"\nstart_timeout = "x"', 1), "not a duration"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_found_before_anything_is_started(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        planned(tmp_path, text)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[correctness]\nbaseline = "vllm serve"', 2),
        ("[correctness.candidate]\nenv = 3", 2),
        ("[correctness.candidate]\nprof = []", 2),
        ("[services.vllm]\ncomand = 3", 2),
    ],
)
def test_a_wrong_key_is_named_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    commands = dict.fromkeys(Arm, "sleep {port}")
    with pytest.raises(ConfigError, match=rf"ci-doctor\.toml:{line}: "):
        planned(tmp_path, text, commands=commands)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("max_starts = 8", "with 8 starts no regression can be declared"),
        ("alpha = 0.0001", "no number of starts decides at alpha 0.0001"),
    ],
)
def test_a_limit_within_which_nothing_can_be_decided_is_refused_with_the_reason(
    tmp_path: Path, more: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        planned(tmp_path, BOTH.replace("[correctness]", f"[correctness]\n{more}"))


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (CorrectnessSettings(min_candidate_starts=8), 16),
        (CorrectnessSettings(min_candidate_starts=14), 18),
        (CorrectnessSettings(max_starts=12, min_candidate_starts=12), 17),
        (CorrectnessSettings(alpha=0.001), 16),
    ],
)
def test_a_design_that_cannot_reach_a_regression_is_widened_and_says_so(
    settings: CorrectnessSettings, most: int
) -> None:
    made = rules_of(settings)
    assert made.max_starts == most
    note = widening(settings, made)
    assert (note is None) is (most == settings.max_starts)
    said = f"max_starts is raised from {settings.max_starts} to {most}: "
    assert note is None or note.startswith(said)


def test_the_policy_any_has_no_limit_to_keep(tmp_path: Path) -> None:
    text = BOTH.replace("[correctness]", '[correctness]\nmax_starts = 1\npolicy = "any"')
    assert planned(tmp_path, text).rules.policy is Policy.ANY


def test_the_rules_of_a_section_without_settings_are_the_default_ones(tmp_path: Path) -> None:
    assert planned(tmp_path).rules == Rules()


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [("1", 30.0), ("2", 60.0), ("5", 240.0), ("10", 540.0), ("30", 1620.0), ("240", 12960.0)],
)
def test_the_steps_own_timeout_less_a_margin_is_the_budget(minutes: str, seconds: float) -> None:
    budget = default_budget({"BUILDKITE_TIMEOUT": minutes})
    assert budget is not None
    assert budget[0] == seconds


def test_where_the_budget_comes_from_is_said() -> None:
    budget = default_budget({"BUILDKITE_TIMEOUT": "30"})
    assert budget is not None
    assert budget[1] == (
        "budget 27 min 00 s: the step's timeout of 30 min 00 s (BUILDKITE_TIMEOUT), "
        "less 3 min 00 s for checkout, setup and upload"
    )


@pytest.mark.parametrize("value", [None, "", "false", "0", "-1", "1.5"])
def test_a_step_without_a_timeout_gives_no_budget(value: str | None) -> None:
    assert default_budget({} if value is None else {"BUILDKITE_TIMEOUT": value}) is None


def test_a_busy_machine_keeps_more_of_a_short_budget_for_the_report_and_not_of_a_long_one() -> None:
    quiet = Budget(began=100.0, seconds=6.0)
    busy = Budget(began=100.0, seconds=6.0, spent_s=1.5)
    assert (quiet.reserve_s, busy.reserve_s) == (2.0, 3.5)
    assert (quiet.deadline, busy.deadline) == (104.0, 102.5)
    assert quiet.grace_s == busy.grace_s, "processes get no longer to end by themselves"
    for spent_s in (0.0, 30.0):
        assert Budget(began=0.0, seconds=1500.0, spent_s=spent_s).reserve_s == 12.0


def test_options_take_the_place_of_those_that_stand_there_and_their_values_of_no_word() -> None:
    argv = ["correctness", "--only", "a", "--only=b", "--passes", "2", "--budget", "9m"]
    made = command_line(argv, ["--passes", "1"], ["--only"])
    assert made == "ci-doctor correctness --passes 1"
    argv = ["correctness", "--candidate", "r1", "--concurrency", "40"]
    made = command_line(argv, ["--only", "r1"])
    assert made == "ci-doctor correctness --candidate r1 --concurrency 40 --only r1"


A, B = Arm.BASELINE, Arm.CANDIDATE
PACE = Pace(rules=Rules(max_starts=10), archived=False, began=0.0, deadline=1000.0)
WHOLE = result("A1", "one")


def took(*starts: tuple[str, float]) -> list[StartResult]:
    return [result(name, "one", duration_s=seconds) for name, seconds in starts]


def every_start(pace: Pace) -> list[StartResult]:
    numbers = dict.fromkeys(Arm, 0)
    names = []
    for arm in pace.order:
        numbers[arm] += 1
        names.append(f"{arm.letter}{numbers[arm]}")
    return took(*((name, 60.0) for name in names))


def test_each_arm_takes_the_median_of_its_own_starts_or_else_of_the_others() -> None:
    own = PACE.measured(took(("A1", 10.0), ("A2", 90.0), ("A3", 12.0)))
    assert own == {A: 12.0, B: 12.0}
    both = took(("A1", 10.0), ("B1", 50.0))
    assert PACE.measured(both) == {A: 10.0, B: 50.0}
    assert "starts of 30.0 s fit" in PACE.outlook(both, 0.0)


def test_a_start_that_died_was_cut_short_or_warmed_up_measures_nothing() -> None:
    nothing = [
        result("B1", "one", failure=DEATH),
        result("A2", "one", cut_short=True),
        result("A0", "one", warm_up=True),
    ]
    assert PACE.measured(nothing) is None
    assert PACE.outlook(nothing, 0.0) == ""


@pytest.mark.parametrize(
    ("made", "archived", "least_a", "least_b", "needs"),
    [
        ("", False, 1, 1, "2 to 16"),
        ("A1", False, 1, 1, "1 to 15 more"),
        ("", False, 1, 2, "3 to 16"),
        ("", True, 3, 1, "1 to 16"),
        ("A1 A2", False, 2, 1, "1 to 14 more"),
    ],
)
def test_how_many_starts_a_verdict_takes(
    made: str, archived: bool, least_a: int, least_b: int, needs: str
) -> None:
    rules = Rules(least_baselines=least_a, least_candidates=least_b)
    pace = Pace(rules=rules, archived=archived, began=0.0, deadline=1500.0)
    results = took(*((name, 1.0) for name in made.split()))
    names = {A: "plain", B: "router, worker"}
    assert pace.beginning(names, 1, results) == (
        f"plain (baseline) and router, worker (candidate): {needs} starts, 1 request each, "
        "25 min 00 s of the budget for them"
    )


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (460.0, "9 min 00 s left of 16 min 40 s: about 9 of at most 9 more starts of 1 min 00 s fit"),
        (461.0, "8 min 59 s left of 16 min 40 s: about 8 of at most 9 more starts of 1 min 00 s fit"),
        (2000.0, "0.0 s left of 16 min 40 s: about 0 of at most 9 more starts of 1 min 00 s fit"),
    ],
)  # fmt: skip
def test_how_many_starts_still_fit(now: float, told: str) -> None:
    assert PACE.outlook(took(("A1", 60.0)), now) == told


def test_what_would_settle_it_is_a_command_to_paste() -> None:
    argv = ["correctness", "--budget", "25m", "--candidate", "serve m --port {port}", "--resume=x"]
    assert PACE.next_run(took(("A1", 60.0)), argv, "my report", 12.0) == (
        "up to 9 more starts, about 9 min 00 s at 1 min 00 s a start",
        "ci-doctor correctness --candidate 'serve m --port {port}' --resume 'my report' --budget 12m",
    )


def test_without_a_start_that_came_to_its_end_the_budget_is_doubled() -> None:
    told = PACE.next_run([], ["correctness", "--resume", "--budget", "-v"], "d", 0.0)
    assert told == (
        "up to 10 more starts",
        "ci-doctor correctness -v --resume d --budget 34m",
    )


def test_a_run_that_made_every_start_is_resumed_with_twice_as_many() -> None:
    argv = ["correctness", "--max-starts=10", "--report-dir=dir"]
    assert PACE.next_run(every_start(PACE), argv, "dir", 0.0) == (
        "up to 10 more starts, about 10 min 00 s at 1 min 00 s a start",
        "ci-doctor correctness --resume dir --max-starts 20 --budget 13m",
    )


def test_starts_made_out_of_turn_are_not_made_again() -> None:
    many = took(*((f"A{number}", 60.0) for number in range(1, 9)))
    left = sum(arm is B for arm in PACE.order)
    cost, _ = PACE.next_run(many, ["correctness"], "dir", 0.0)
    assert cost.startswith(f"up to {left} more starts, ")


def test_under_the_policy_any_it_is_made_anew() -> None:
    pace = replace(PACE, rules=Rules(policy=Policy.ANY))
    cost, command = pace.next_run(every_start(pace), ["correctness"], "dir", 12.0)
    assert cost.startswith("a new run of up to 10 starts, about 10 min 00 s")
    assert command.startswith("ci-doctor correctness --retries 5 --budget")


def test_the_first_start_measures_how_long_the_run_may_take() -> None:
    slow = replace(WHOLE, duration_s=300.0)
    # 10 starts of 300 s, a quarter more, and what is kept for the report.
    assert PACE.measured_deadline([slow]) == 10 * 300.0 * 1.25 + 12.0
    assert PACE.measured_deadline([replace(WHOLE, duration_s=1.0)]) == PACE.deadline
    assert PACE.measured_deadline([replace(slow, cut_short=True)]) == PACE.deadline
