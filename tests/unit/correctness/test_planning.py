# SPDX-License-Identifier: Apache-2.0
"""Tests of plans from a configuration."""

# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

# SPDX-License-Identifier: Apache-2.0
from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.config.loading import load_config
from ci_doctor.correctness.planning import parse_arm_variables, read_settings, rules_of, widening
from ci_doctor.correctness.settings import Arm, CorrectnessSettings, Policy, Rules
from ci_doctor.errors import ConfigError, UsageError

# SPDX-License-Identifier: Apache-2.0
from tests.unit.correctness.plans import BOTH, planned


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

    settings = read_settings(loaded, {}, {}, {arm: {} for arm in Arm})

    assert settings.archive == address


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
        read_settings(load_config(None, tmp_path), {}, {}, {arm: {} for arm in Arm})
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
    if most == settings.max_starts:
        assert note is None
    else:
        assert note is not None
        assert note.startswith(f"max_starts is raised from {settings.max_starts} to {most}: ")


def test_the_policy_any_has_no_limit_to_keep(tmp_path: Path) -> None:
    text = BOTH.replace("[correctness]", '[correctness]\nmax_starts = 1\npolicy = "any"')
    assert planned(tmp_path, text).rules.policy is Policy.ANY


def test_the_rules_of_a_section_without_settings_are_the_default_ones(tmp_path: Path) -> None:
    assert planned(tmp_path).rules == Rules()
