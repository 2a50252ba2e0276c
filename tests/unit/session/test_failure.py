# SPDX-License-Identifier: Apache-2.0
import errno

import pytest

from ci_doctor.errors import ConfigError, InfraError, PreparationError, Terminated, UsageError
from ci_doctor.model.outcome import Verdict
from ci_doctor.session.delivery import ExitPolicy, exit_code
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
        (MemoryError(), 75),
        (OSError(errno.EMFILE, "Too many open files"), 75),
        (OSError(errno.ENFILE, "Too many open files in system"), 75),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 75),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), 75),
        (OSError(errno.EROFS, "Read-only file system", "/out"), 75),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), 75),
        (RuntimeError("can't start new thread"), 75),
        (RuntimeError("another"), 70),
        (ImportError("/x.so: cannot open shared object file: Too many open files"), 75),
        (ImportError("no module named x"), 70),
        (ExceptionGroup("both", [ValueError("m"), OSError(errno.EMFILE, "files")]), 75),
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


def raised(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (raised(ValueError("m"), OSError(errno.EMFILE, "files")), 75, "raise `ulimit -n`"),
        (raised(UsageError("a: cannot be read"), OSError(errno.EMFILE, "x")), 75, "`ulimit -n`"),
        (raised(UsageError("a: cannot be read"), OSError(errno.ENOENT, "x")), 2, None),
        # A read-only directory was named by a person, who can name another.
        (raised(UsageError("a: read-only"), OSError(errno.EROFS, "x")), 2, None),
        (raised(UsageError("no memory"), MemoryError()), 75, "`ulimit -v`"),
    ],
)
def test_what_the_machine_lacks_behind_an_error_is_no_fault_of_ours(
    error: BaseException, code: int, hint: str | None
) -> None:
    outcome = outcome_of(error, ARGV)
    assert exit_code(outcome, ExitPolicy()) == code
    assert outcome.error is not None
    assert (hint or "") in (outcome.error.hint or "")


def test_a_circle_of_causes_is_a_bug_and_no_endless_search() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert exit_code(outcome_of(first, ARGV), ExitPolicy()) == 70


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
