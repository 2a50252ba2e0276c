# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.report.findings import (
    archive_use,
    device_findings,
    drift_findings,
)
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.schedule import drawn_places, sequence
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.model.facts.correctness import ArchiveDrift, ArchiveUseFacts
from ci_doctor.model.outcome import Severity

RULES = Rules(seed=7)


def result(start: ArmStart) -> StartResult:
    return StartResult(start=start, failure=None, duration_s=1.0, digests={}, errors={})


def made(
    number: int, answer: Mapping[tuple[Arm, str], str | None], rules: Rules = RULES
) -> list[StartResult]:
    """The first starts of a run on two devices, each answered by its arm and its device."""
    starts: list[ArmStart] = []
    for arm in sequence(rules)[:number]:
        place = str(drawn_places(starts, rules, 2, 2)[0])
        answers = {"r0": answer[arm, place], "r1": "same"}
        starts.append(ArmStart(arm=arm, number=len(starts), answers=answers, devices=place))
    return [result(start) for start in starts]


BY_DEVICE = {(arm, place): place for arm, place in product(Arm, "01")}
BY_ARM = {(arm, place): arm.value for arm, place in product(Arm, "01")}
BY_BOTH = {(arm, place): arm.value + place for arm, place in product(Arm, "01")}
SILENT = {(arm, place): "x" if place == "0" else None for arm, place in product(Arm, "01")}


@pytest.mark.parametrize(
    ("answer", "number", "severity"),
    [
        (BY_DEVICE, 16, Severity.WARNING),
        (SILENT, 16, Severity.WARNING),
        (BY_BOTH, 16, Severity.WARNING),
        (BY_ARM, 16, None),
        # Few pairs: chance alone may do so.
        (BY_DEVICE, 4, Severity.NOTE),
    ],
)
def test_an_answer_that_follows_the_device_is_told_once_the_draw_hardly_makes_it(
    answer: Mapping[tuple[Arm, str], str | None], number: int, severity: Severity | None
) -> None:
    findings = list(device_findings(made(number, answer), RULES, 2, 2))
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    how = "may follow" if severity is Severity.NOTE else "follow"
    for finding in findings:
        assert finding.summary.startswith(f"answers {how} the device, not the arm: r0 on device 0")


def starts(archived: Sequence[tuple[str | None, str]], today: str) -> list[ArmStart]:
    made = []
    for number, (build, answer) in enumerate(archived, 1):
        start = ArmStart(arm=Arm.BASELINE, number=number, answers={"r3": answer})
        made.append(replace(start, archived=True, build=build))
    for number, answer in enumerate(today, 1):
        made.append(ArmStart(arm=Arm.BASELINE, number=number, answers={"r3": answer}))
    return made


def test_builds_are_counted_beside_starts() -> None:
    use = archive_use(starts([("1", "a"), ("1", "a"), ("2", "a"), (None, "a"), (None, "a")], "a"))
    assert use == ArchiveUseFacts(starts=5, builds=3, unknown_builds=2, drift=None)
    assert archive_use(starts([], "a")) is None


def test_an_archive_that_today_contradicts_is_a_warning_with_what_to_do() -> None:
    made = starts([("1", "a"), ("2", "a")], "xx")
    (finding,) = drift_findings(archive_use(made))
    assert finding.rule == "correctness/archive-drift"
    assert finding.summary == (
        "r3: 2 baseline starts of today share no answer with 2 archived starts; the archive is off"
    )
    assert "remove its files" in str(finding.remedy)
    use = archive_use(made)
    assert use is not None
    assert use.drift == ArchiveDrift(request="r3", today=2, p=None)


def test_another_mix_is_a_warning_with_its_p_value() -> None:
    made = starts([(str(number), "a") for number in range(12)], "xxxa")
    (finding,) = drift_findings(archive_use(made))
    assert "4 baseline starts of today mix their answers otherwise" in finding.summary
    assert "p = 0.0071" in finding.summary


def test_an_archive_that_today_agrees_with_is_no_finding() -> None:
    assert list(drift_findings(archive_use(starts([("1", "a"), ("2", "a")], "aa")))) == []
