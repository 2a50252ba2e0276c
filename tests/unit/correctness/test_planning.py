# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.correctness.planning import rules, widening
from ci_doctor.correctness.settings import Arm, CorrectnessSettings, Policy, Rules
from ci_doctor.errors import ConfigError, UsageError
from tests.unit.correctness.plans import BOTH, planned


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
    made = rules(settings)
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
