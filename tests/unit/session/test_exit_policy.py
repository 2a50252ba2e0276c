# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.model.outcome import ErrorKind, Failure, Outcome, Verdict
from ci_doctor.session.delivery import ExitPolicy, exit_code


def ended(verdict: Verdict | None, **changes: object) -> Outcome:
    return Outcome(verdict=verdict, summary="s", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict.PASS, 0),
        (Verdict.REGRESSION, 1),
        (Verdict.FAILED, 1),
        (Verdict.FLAKY, 0),
        (Verdict.NONDETERMINISTIC, 85),
        (Verdict.INFRA, 75),
        (Verdict.INCONCLUSIVE, 86),
        (Verdict.VOID, 86),
        (None, 0),
    ],
)
def test_the_verdict_alone_decides(verdict: Verdict | None, code: int) -> None:
    assert exit_code(ended(verdict), ExitPolicy()) == code


def test_a_flake_fails_only_on_request() -> None:
    assert exit_code(ended(Verdict.FLAKY), ExitPolicy(fail_on_flaky=True)) == 7
    assert exit_code(ended(Verdict.FLAKY), ExitPolicy(codes={"flaky": 9})) == 0


def test_a_repository_has_codes_of_its_own_and_a_pass_stays_0() -> None:
    policy = ExitPolicy(codes={"failed": 3, "pass": 5})

    assert exit_code(ended(Verdict.FAILED), policy) == 3
    assert exit_code(ended(Verdict.PASS), policy) == 0


def test_a_verdict_that_is_let_through_ends_with_0() -> None:
    policy = ExitPolicy(let_through=frozenset({Verdict.INCONCLUSIVE}), codes={"inconclusive": 9})

    assert exit_code(ended(Verdict.INCONCLUSIVE), policy) == 0
    assert exit_code(ended(Verdict.VOID), policy) == 86


def test_the_status_of_a_users_command_comes_first() -> None:
    assert exit_code(ended(Verdict.FAILED, command_status=3), ExitPolicy(codes={"failed": 9})) == 3


def test_a_command_that_ended_well_does_not_outvote_a_failure() -> None:
    assert exit_code(ended(Verdict.FAILED, command_status=0), ExitPolicy()) == 1
    assert exit_code(ended(Verdict.PASS, command_status=0), ExitPolicy()) == 0
    assert exit_code(ended(None, command_status=0), ExitPolicy()) == 0


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ErrorKind.USAGE, 2),
        (ErrorKind.BUG, 70),
        (ErrorKind.PREPARATION, 1),
        (ErrorKind.INFRA, 75),
        (ErrorKind.SIGINT, 130),
        (ErrorKind.SIGTERM, 143),
        (None, 70),
    ],
)
def test_without_a_verdict_the_error_decides(kind: ErrorKind | None, code: int) -> None:
    assert exit_code(ended(None, error=Failure(message="m", kind=kind)), ExitPolicy()) == code


def test_what_judges_nothing_ends_as_the_policy_says() -> None:
    by_class = ExitPolicy(unjudged_as=Verdict.INFRA)

    assert exit_code(ended(None), by_class) == 75
    assert exit_code(ended(None), ExitPolicy(unjudged_as=Verdict.FAILED)) == 1
    own = ExitPolicy(codes={"infra": 255}, unjudged_as=Verdict.INFRA)
    assert exit_code(ended(None), own) == 255
    assert exit_code(ended(Verdict.VOID), by_class) == 86
    usage = Failure(message="m", kind=ErrorKind.USAGE)
    assert exit_code(ended(None, error=usage), by_class) == 2
