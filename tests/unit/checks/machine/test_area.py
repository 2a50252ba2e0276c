# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from ci_doctor.checks.all_checks import all_checks
from ci_doctor.checks.check import CheckStatus, FinishedCheck
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.running import run_checks
from ci_doctor.checks.settings import DoctorSettings
from tests.support.checks import check_context

CHECKS = [check for check in all_checks(DoctorSettings()) if check.area == "machine"]
CRASHED = "doctor/check-crashed"


def finish(context: CheckContext) -> list[FinishedCheck]:
    return list(run_checks(CHECKS, context))


def rules(finished: list[FinishedCheck]) -> set[str]:
    return {one.finding.rule for each in finished for one in each.result.problems}


def test_without_proc_sys_and_dev_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    finished = finish(check_context(tmp_path, environ={}, root=tmp_path))

    assert len(finished) == len(CHECKS)
    assert CRASHED not in rules(finished)
    unknown = {each.check.id for each in finished if each.result.status is CheckStatus.UNKNOWN}
    assert {
        "machine/memory",
        "machine/cgroup-memory",
        "machine/cpus",
        "machine/processes",
        "machine/overcommit",
    } <= unknown


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_every_check_answers_for_a_user_who_owns_nothing() -> None:
    import ctypes  # noqa: F401 - that user may not read our installation

    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    try:
        os.seteuid(65534)
        finished = finish(check_context(Path("/"), environ=environ))
    finally:
        os.seteuid(0)

    assert len(finished) == len(CHECKS)
    assert CRASHED not in rules(finished)
    assert CheckStatus.ERROR not in {each.result.status for each in finished}


def test_on_this_machine_there_is_no_error_and_nothing_is_late(tmp_path: Path) -> None:
    settings = DoctorSettings(min_free=1, shared_memory=1)

    finished = finish(check_context(tmp_path, settings=settings))

    assert [each.check.id for each in finished if each.duration_s is None] == []
    assert CheckStatus.ERROR not in {each.result.status for each in finished}
