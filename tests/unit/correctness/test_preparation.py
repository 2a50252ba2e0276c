# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.preparation import prepare
from ci_doctor.correctness.request import ExperimentRequest
from ci_doctor.correctness.settings import Arm, ArmSettings, CorrectnessSettings
from ci_doctor.errors import UsageError
from tests.unit.correctness.prepared import ARM, ENVIRONMENT, prepared


def test_a_prepared_experiment_has_written_nothing(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    assert [request.id for request in made.plan.requests] == ["r0", "r1"]
    assert made.plan.arms[Arm.BASELINE].names == ("baseline",)
    assert made.plan.deadline - made.plan.started == pytest.approx(300 - 12)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["requests.jsonl"]


def test_secrets_of_the_services_are_known(tmp_path: Path) -> None:
    secret = ArmSettings(command="sleep {port}", env={"HF_TOKEN": "hf_abcdefghijklmnop"})
    made = prepared(tmp_path, candidate=secret)
    assert made.redactor.text("with hf_abcdefghijklmnop") == "with [redacted]"
    assert {"HF_TOKEN": "hf_abcdefghijklmnop"} in list(made.service_environments())


def test_what_is_noticed_before_the_first_start_is_a_finding(tmp_path: Path) -> None:
    strict = ArmSettings(command="sleep {port}", env={"VLLM_BATCH_INVARIANT": "1"})
    made = prepared(tmp_path, candidate=strict)
    assert [finding.rule for finding in made.findings] == ["correctness/different-determinism"]


def test_an_archive_without_starts_says_so(tmp_path: Path) -> None:
    made = prepared(tmp_path, archive=str(tmp_path / "archive"))
    assert made.archive is not None
    assert made.notes[0] == f"no archived baseline in {tmp_path / 'archive'} yet"


def test_without_a_requests_file_nothing_can_be_sent(tmp_path: Path) -> None:
    request = ExperimentRequest(settings=CorrectnessSettings(baseline=ARM, candidate=ARM))
    with pytest.raises(UsageError, match="no requests file"):
        prepare(request, tmp_path, ENVIRONMENT)


def test_a_limit_that_is_no_size_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="archive_limit"):
        prepared(tmp_path, archive="archive", archive_limit="much")
