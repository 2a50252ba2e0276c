# SPDX-License-Identifier: Apache-2.0
import errno

import pytest

from ci_doctor.errors import ConfigError, InfraError, PreparationError, Terminated, UsageError
from ci_doctor.model.verdict import Verdict
from ci_doctor.session.exit_policy import ExitPolicy, exit_code
from ci_doctor.session.failure import outcome_of

ARGV = ["config", "show"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("m"), 2),
        (ConfigError("m"), 2),
        (PreparationError("m"), 1),
        (InfraError("m"), 75),
        (KeyboardInterrupt(), 130),
        (Terminated(), 143),
        (OSError(errno.ENOSPC, "full"), 75),
        (OSError(errno.EIO, "broken"), 70),
        (OSError(errno.ENAMETOOLONG, "File name too long", "aaa"), 2),
        (PermissionError(errno.EACCES, "Permission denied", "/root/x"), 2),
        (PermissionError(errno.EPERM, "Operation not permitted"), 70),
        (ValueError("m"), 70),
        (SystemExit(0), 70),
        (MemoryError(), 70),
        (RecursionError(), 70),
    ],
)
def test_every_error_has_its_documented_code(error: BaseException, code: int) -> None:
    outcome = outcome_of(error, ARGV)

    assert exit_code(outcome, ExitPolicy()) == code
    assert outcome.error is not None
    assert outcome.error.message
    assert not outcome.error.message.endswith(".")
    assert (outcome.error.detail is not None) == (code == 70)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (PreparationError("m"), Verdict.FAILED),
        (InfraError("m"), Verdict.INFRA),
        (UsageError("m"), None),
        (ValueError("m"), None),
        (KeyboardInterrupt(), None),
    ],
)
def test_an_error_that_is_a_verdict_of_its_own_has_it(
    error: BaseException, verdict: Verdict | None
) -> None:
    assert outcome_of(error, ARGV).verdict is verdict


def test_a_repositorys_own_code_for_infra_holds_for_an_error_too() -> None:
    outcome = outcome_of(InfraError("no disk"), ARGV)

    assert exit_code(outcome, ExitPolicy(codes={"infra": 255})) == 255


def test_a_bug_can_be_pasted() -> None:
    error = ValueError("on purpose")
    error.__cause__ = KeyError("first")

    failure = outcome_of(error, ARGV).error

    assert failure is not None
    for part in (
        "ci-doctor ",
        "Python 3",
        "command: ci-doctor config show",
        "ValueError: on purpose",
        "KeyError: 'first'",
    ):
        assert part in str(failure.detail)
    assert "nothing about your change" in str(failure.hint)
