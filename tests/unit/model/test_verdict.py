# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.model.verdict import EXIT_CODES, ExitCode, Verdict


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict.PASS, 0),
        (Verdict.FLAKY, 7),
        (Verdict.FAILED, 1),
        (Verdict.REGRESSION, 1),
        (Verdict.INFRA, 75),
        (Verdict.NONDETERMINISTIC, 85),
        (Verdict.INCONCLUSIVE, 86),
        (Verdict.VOID, 86),
    ],
)
def test_each_verdict_has_its_documented_code(verdict: Verdict, code: int) -> None:
    assert EXIT_CODES[verdict] == code


def test_no_code_is_one_that_the_agent_or_the_shell_gives_a_meaning() -> None:
    assert {125, 126, 127}.isdisjoint(ExitCode)
    assert {code for code in ExitCode if code > 127} == {ExitCode.SIGINT, ExitCode.SIGTERM}
