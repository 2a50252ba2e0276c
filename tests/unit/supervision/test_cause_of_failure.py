# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.diagnosis.failure_class import POLICIES, FailureClass
from ci_doctor.supervision.cause_of_failure import find_cause, retry_helps
from tests.unit.supervision.causes import a_cause

NEVER_BY_TEXT_ALONE = {
    FailureClass.HOST_OUT_OF_MEMORY,
    FailureClass.GPU_OUT_OF_MEMORY,
    FailureClass.TIMEOUT,
    FailureClass.STALLED,
    FailureClass.CUDA_ERROR,
    FailureClass.RENDEZVOUS,
    FailureClass.IMPORT_RACE,
}
OUTSIDE = {FailureClass.REGISTRY, FailureClass.NETWORK, FailureClass.DISK, FailureClass.AGENT_LOST}


@pytest.mark.parametrize("failure_class", sorted(NEVER_BY_TEXT_ALONE))
def test_what_may_be_the_changes_own_is_not_retried(failure_class: FailureClass) -> None:
    assert not retry_helps(a_cause(class_=failure_class))


@pytest.mark.parametrize("failure_class", sorted(OUTSIDE))
def test_what_lies_outside_the_change_is_retried(failure_class: FailureClass) -> None:
    assert retry_helps(a_cause(class_=failure_class))


def test_a_line_from_outside_is_retried_only_if_its_class_is() -> None:
    assert retry_helps(a_cause(class_=FailureClass.PORT_IN_USE, is_outside=True))
    assert not retry_helps(a_cause(class_=FailureClass.CODE_BUG, is_outside=True))


def test_without_a_cause_or_a_class_nothing_is_retried() -> None:
    assert not retry_helps(None)
    assert not retry_helps(a_cause(class_=None, is_outside=True))


def test_every_class_has_a_policy() -> None:
    assert set(POLICIES) == set(FailureClass)


def test_a_rule_file_with_a_mistake_costs_the_diagnosis_alone(tmp_path: Path) -> None:
    log = tmp_path / "command.log"
    log.write_text("RuntimeError: gone\n")
    rules = tmp_path / "rules.toml"
    rules.write_text("no table\n")

    found = find_cause(log, [rules])

    assert found.diagnosis is None
    assert found.problem is not None
    assert "no diagnosis" in found.problem
