# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec.structs import replace

from ci_doctor.model.outcome import Report
from ci_doctor.model.verdict import EXIT_CODES, Verdict
from ci_doctor.session.delivery import undelivered
from ci_doctor.session.exit_policy import ExitPolicy

REPORT = Report(
    tool_version="1",
    command="launch",
    argv=(),
    started_at="2026-11-22T09:00:00.000Z",
    duration_s=1.0,
    verdict=Verdict.PASS,
    exit_code=0,
    summary="all the same",
)
FULL = ("cannot write r/report.json: No space left on device", "cannot write r/report.md: x")


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FLAKY, Verdict.INCONCLUSIVE, None])
def test_whatever_would_end_with_0_becomes_infra(verdict: Verdict | None) -> None:
    changed = undelivered(replace(REPORT, verdict=verdict), FULL, ExitPolicy())

    assert (changed.verdict, changed.exit_code) == (Verdict.INFRA, 75)
    assert changed.error is not None
    assert changed.error.message == f"{FULL[0]}, and 1 more"
    assert changed.summary == "all the same"


@pytest.mark.parametrize("verdict", [each for each in Verdict if EXIT_CODES[each]])
def test_a_failure_stays_what_it_is_and_says_so(verdict: Verdict) -> None:
    report = replace(REPORT, verdict=verdict, exit_code=int(EXIT_CODES[verdict]))

    changed = undelivered(report, FULL, ExitPolicy())

    assert (changed.verdict, changed.exit_code) == (verdict, report.exit_code)
    assert [each.rule for each in changed.findings] == ["report/not-delivered"]


def test_a_repositorys_own_code_of_infra_counts() -> None:
    assert undelivered(REPORT, FULL, ExitPolicy(codes={"infra": 255})).exit_code == 255


def test_a_reader_that_left_has_a_code_of_its_own() -> None:
    assert undelivered(REPORT, FULL[:1], ExitPolicy(), reader_code=141).exit_code == 141
