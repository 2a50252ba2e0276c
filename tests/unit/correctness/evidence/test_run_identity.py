# SPDX-License-Identifier: Apache-2.0
"""Tests of run.json."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.evidence.run_identity import (
    RunIdentity,
    differences,
    identify,
    read_run,
    with_order,
    write_limits,
    write_run,
)
from ci_doctor.correctness.settings import (
    AnswerLevel,
    Arm,
    ArmPlan,
    Caches,
    Comparison,
    ExperimentPlan,
    Proof,
    Rules,
    read_comparison,
)
from ci_doctor.errors import UsageError
from ci_doctor.load.requests import Request
from ci_doctor.services.spec import ServiceSpec

SECRET = "hf_abcdefghijklmnop"
SPECS = {
    "kv": ServiceSpec(command="lmcache --port {port}"),
    "vllm": ServiceSpec(command="vllm serve m", env={"HF_TOKEN": SECRET}, needs=["kv"]),
    "unused": ServiceSpec(command="nothing"),
}
BASELINE = ArmPlan(specs={"baseline": ServiceSpec(command="vllm serve m")}, names=("baseline",))
CANDIDATE = ArmPlan(specs=SPECS, names=("vllm",))
PLAN = ExperimentPlan(
    arms={Arm.BASELINE: BASELINE, Arm.CANDIDATE: CANDIDATE},
    requests=(Request(id="r0", path="/v1/completions", body={"prompt": "a"}, line=1),),
    rules=Rules(),
    concurrency=40,
    passes=1,
    caches=Caches.FRESH,
    request_timeout_s=120.0,
    started=0.0,
    deadline=1500.0,
    grace_s=5.0,
    directory=Path("/reports"),
    services_directory=Path("/repo"),
    environment={"HOME": "/root", "PYTHONHASHSEED": "0"},
)


def with_service(name: str, **changes: Any) -> ExperimentPlan:
    specs = {**SPECS, name: replace(SPECS[name], **changes)}
    return replace(PLAN, arms={**PLAN.arms, Arm.CANDIDATE: replace(CANDIDATE, specs=specs)})


def with_candidate(**changes: Any) -> ExperimentPlan:
    return replace(PLAN, arms={**PLAN.arms, Arm.CANDIDATE: replace(CANDIDATE, **changes)})


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            replace(PLAN, requests=(replace(PLAN.requests[0], body={"prompt": "b"}),)),
            "the requests changed",
        ),
        (
            with_service("vllm", command="vllm serve m --x"),
            "the command of the candidate's vllm changed",
        ),
        (with_service("kv", command="lmcache"), "the command of the candidate's kv changed"),
        (with_service("vllm", cwd="src"), "the directory of the candidate's vllm changed"),
        (
            with_service("vllm", env={"HF_TOKEN": "other"}),
            "the variable HF_TOKEN of the candidate's vllm changed",
        ),
        (with_candidate(names=("kv", "vllm")), "the services of the candidate changed"),
        (with_candidate(proof=(Proof(metric="hits"),)), "the proof of the candidate changed"),
        (with_candidate(reset="/reset"), "the reset of the candidate changed"),
        (replace(PLAN, passes=2), "passes 1 -> 2"),
        (replace(PLAN, rules=Rules(alpha=0.1)), "alpha 0.025 -> 0.1"),
        (replace(PLAN, caches=Caches.AS_IS), "caches fresh -> as-is"),
        (replace(PLAN, comparison=Comparison(level=AnswerLevel.WORDS)), "compare numbers -> words"),
        (
            replace(PLAN, comparison=read_comparison(AnswerLevel.NUMBERS, "4 ulp")),
            "limit unset -> 4 ulp",
        ),
    ],
)
def test_what_another_plan_changes_is_named(other: ExperimentPlan, told: str) -> None:
    assert tuple(differences(identify(PLAN), identify(other))) == (told,)


@pytest.mark.parametrize(
    "other",
    [
        replace(
            PLAN,
            deadline=9999.0,
            started=7.0,
            request_timeout_s=1.0,
            grace_s=1.0,
            directory=Path("/elsewhere"),
        ),
        with_service("vllm", start_timeout="1s"),
        with_service("unused", command="something"),
        replace(PLAN, environment={**PLAN.environment, "HOME": "/home/x"}),
        replace(PLAN, requests=(replace(PLAN.requests[0], line=7),)),
    ],
)
def test_what_changes_no_answer_is_no_difference(other: ExperimentPlan) -> None:
    assert tuple(differences(identify(PLAN), identify(other))) == ()


def test_an_inherited_determinism_variable_counts_for_every_service() -> None:
    other = replace(PLAN, environment={"PYTHONHASHSEED": "1"})
    told = tuple(differences(identify(PLAN), identify(other)))
    assert "the variable PYTHONHASHSEED of the baseline changed" in told
    assert len(told) == 3


def test_further_settings_are_told_by_name() -> None:
    assert tuple(differences(identify(PLAN, {"commit": "a1"}), identify(PLAN))) == (
        "commit a1 -> unset",
    )


def test_a_run_is_read_as_it_was_written_and_holds_no_secret(tmp_path: Path) -> None:
    write_run(tmp_path, identify(PLAN))
    assert read_run(tmp_path).identity == identify(PLAN)
    text = (tmp_path / "run.json").read_text()
    assert SECRET not in text
    assert all(len(mark) == 4 for mark in json.loads(text)["identity"]["hashes"].values())


@pytest.mark.parametrize("name", ["run.json", "starts.jsonl"])
def test_a_file_of_somebody_else_is_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(UsageError, match="is not a file that ci-doctor wrote"):
        write_run(tmp_path, identify(PLAN))
    assert (tmp_path / name).read_text() == '{"mine": 1}'


def begun(directory: Path, seed: int, *limits: int) -> Path:
    identity = RunIdentity(requests="", hashes={}, settings={"seed": seed})
    write_run(directory, identity, limits)
    return directory


def test_a_new_run_without_a_seed_draws_one_each_time_and_keeps_a_given_one() -> None:
    seeds = {with_order(Rules(), None, None).seed for _ in range(4)}
    assert len(seeds) > 1
    assert with_order(Rules(), 0, None).seed == 0


def test_a_resumed_run_keeps_its_seed_unless_another_is_given(tmp_path: Path) -> None:
    run = begun(tmp_path, 4242, 16)
    assert with_order(Rules(), None, run).seed == 4242
    # Another seed is another run: `check_resumable` refuses it.
    assert with_order(Rules(), 7, run).seed == 7


def test_where_there_is_no_run_the_reason_is_left_to_the_one_who_resumes(tmp_path: Path) -> None:
    assert with_order(Rules(), None, tmp_path).earlier_max_starts == ()


def test_a_larger_limit_is_kept_beside_the_earlier_ones(tmp_path: Path) -> None:
    run = begun(tmp_path, 1, 16)
    rules = with_order(Rules(max_starts=32), None, run)
    assert rules.limits == (16, 32)
    write_limits(run, rules.limits)
    assert with_order(Rules(max_starts=32), None, run).limits == (16, 32)
    assert with_order(Rules(max_starts=64), None, run).limits == (16, 32, 64)
    assert read_run(run).identity.settings == {"seed": 1}


def test_a_smaller_limit_is_refused_before_anything_changes(tmp_path: Path) -> None:
    run = begun(tmp_path, 1, 16, 32)
    with pytest.raises(UsageError, match=r"max_starts 32 -> 16") as refusal:
        with_order(Rules(max_starts=16), None, run)
    assert "--max-starts 32 or more" in str(refusal.value.hint)
