# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.verdict import Verdict, exit_code


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict.PASS, 0),
        (Verdict.FLAKY, 0),
        (Verdict.REGRESSION, 1),
        (Verdict.INFRA, 75),
        (Verdict.NONDETERMINISTIC, 85),
        (Verdict.INCONCLUSIVE, 86),
        (Verdict.VOID, 86),
    ],
)
def test_each_verdict_has_its_documented_code(verdict: Verdict, code: int) -> None:
    assert exit_code(verdict) == code
    assert exit_code(verdict, fail_on_flaky=True) == (7 if verdict is Verdict.FLAKY else code)


def test_no_code_is_one_that_the_agent_or_the_shell_gives_a_meaning() -> None:
    assert {125, 126, 127}.isdisjoint(ExitCode)
    assert {code for code in ExitCode if code > 127} == {ExitCode.SIGINT, ExitCode.SIGTERM}
