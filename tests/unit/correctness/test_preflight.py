# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

from ci_doctor.correctness.preflight import determinism_findings, sampling_findings
from ci_doctor.correctness.settings import Arm
from ci_doctor.load.requests import Request
from tests.unit.correctness.plans import ENVIRONMENT, planned


def test_random_sampling_is_warned_of(tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = [{"temperature": 0}, {"top_k": 1}, {}, {"temperature": 0.7}]
    requests = [
        Request(id=f"r{line}", path="/", body=body, line=line)
        for line, body in enumerate(bodies, start=1)
    ]
    (finding,) = sampling_findings(requests, tmp_path)
    assert finding.summary.startswith("2 of 4 requests do not ask for temperature 0")
    assert finding.evidence[0].line == 3
    assert sampling_findings(requests[:2], tmp_path) == ()


def test_vectors_and_scores_are_not_sampled(tmp_path: Path) -> None:
    request = Request(id="r", path="/v1/embeddings", body={"input": "x"}, line=1)
    assert sampling_findings([request], tmp_path) == ()


def test_the_own_apis_of_servers_say_it_in_a_part_of_the_body(tmp_path: Path) -> None:
    greedy: list[dict[str, Any]] = [
        {"inputs": "x", "parameters": {"do_sample": False}},
        {"text": "x", "sampling_params": {"temperature": 0}},
    ]
    sampled: dict[str, Any] = {"inputs": "x", "parameters": {"do_sample": True}}
    requests = [
        Request(id=f"r{line}", path="/generate", body=body, line=line)
        for line, body in enumerate([*greedy, sampled], start=1)
    ]
    assert sampling_findings(requests[:2], tmp_path) == ()
    assert len(sampling_findings(requests, tmp_path)) == 1


def test_arms_under_different_determinism_variables_are_a_finding(tmp_path: Path) -> None:
    variables = {Arm.BASELINE: {}, Arm.CANDIDATE: {"VLLM_BATCH_INVARIANT": "1"}}
    (finding,) = determinism_findings(planned(tmp_path, variables=variables))
    assert "VLLM_BATCH_INVARIANT" in finding.summary
    assert finding.evidence[0].excerpt == "VLLM_BATCH_INVARIANT: 'unset' against '1'"


def test_a_variable_that_one_arm_inherits_and_the_other_names_is_none(tmp_path: Path) -> None:
    variables = {Arm.BASELINE: {}, Arm.CANDIDATE: {"VLLM_BATCH_INVARIANT": "1"}}
    environment = {**ENVIRONMENT, "VLLM_BATCH_INVARIANT": "1"}
    assert (
        determinism_findings(planned(tmp_path, variables=variables, environment=environment)) == ()
    )
