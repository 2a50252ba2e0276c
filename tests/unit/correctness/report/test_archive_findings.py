# SPDX-License-Identifier: Apache-2.0
"""What a report says of the archive: of how many builds it is, and whether it drifted."""

from collections.abc import Sequence

from ci_doctor.correctness.report.archive_findings import archive_use, drift_findings
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.model.facts.archive import ArchiveDriftFacts, ArchiveUseFacts


def starts(archived: Sequence[tuple[str | None, str]], today: str) -> list[ArmStart]:
    made = []
    for number, (build, answer) in enumerate(archived, 1):
        start = ArmStart(
            arm=Arm.BASELINE,
            number=number,
            answers={"r3": answer},
            archived=True,
            build=build,
        )
        made.append(start)
    for number, answer in enumerate(today, 1):
        made.append(ArmStart(arm=Arm.BASELINE, number=number, answers={"r3": answer}))
    return made


def test_builds_are_counted_beside_starts() -> None:
    use = archive_use(starts([("1", "a"), ("1", "a"), ("2", "a"), (None, "a"), (None, "a")], "a"))
    assert use == ArchiveUseFacts(starts=5, builds=3, unknown_builds=2, drift=None)
    assert archive_use(starts([], "a")) is None


def test_an_archive_that_today_contradicts_is_a_warning_with_what_to_do() -> None:
    made = starts([("1", "a"), ("2", "a")], "xx")
    (finding,) = drift_findings(made, "/mnt/ci/base lines")
    assert finding.rule == "correctness/archive-drift"
    assert finding.summary == (
        "r3: 2 baseline starts of today share no answer with 2 archived starts; the archive is off"
    )
    assert "archive list --archive '/mnt/ci/base lines'" in str(finding.remedy)
    use = archive_use(made)
    assert use is not None
    assert use.drift == ArchiveDriftFacts(request="r3", today=2, p=None)


def test_another_mix_is_a_warning_with_its_p_value() -> None:
    made = starts([(str(number), "a") for number in range(12)], "xxxa")
    (finding,) = drift_findings(made, "archive")
    assert "4 baseline starts of today mix their answers otherwise" in finding.summary
    assert "p = 0.0071" in finding.summary


def test_an_archive_that_today_agrees_with_is_no_finding() -> None:
    assert list(drift_findings(starts([("1", "a"), ("2", "a")], "aa"), "archive")) == []
