# SPDX-License-Identifier: Apache-2.0
"""What a finding of lint holds of a violation, whatever its line and its words are."""

from ci_doctor.lint.findings import findings_of
from ci_doctor.lint.violation import Place, Violation
from tests.support.stand_in_readers import BAD_WORD

PLACE = Place(file="x.sh", line=1, end_line=1)
LONG = "x" * 1_000_000


def test_words_of_a_megabyte_do_not_reach_the_report() -> None:
    violation = Violation(
        rule=BAD_WORD,
        place=PLACE,
        summary=f"`{LONG}` is evil",
        excerpt=f"echo {LONG}",
        remedy=f"good {LONG}",
    )

    (finding,) = findings_of([violation])

    assert (finding.summary, finding.evidence[0].excerpt) == ("…", "echo …")
    # Half a command would be another command.
    assert finding.remedy is None
