# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.diagnosis.header_lines import named_lines
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.reading.open_log import open_log
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit, scan

RULES = RuleSet(
    [
        LogRule(
            id="runner/failures",
            role=Role.FAILURE,
            literals=("Failures:",),
            regex="^Failures:$",
            next_line=r"^\s*1\) (?P<test>.+)",
        )
    ]
)


def named(folder: Path, *lines: str) -> tuple[Hit, ...]:
    path = folder / "log"
    path.write_text("\n".join(lines) + "\n")
    with open_log(str(path)) as log:
        return named_lines(log, scan(log, RULES).hits, RULES)


def test_a_header_names_the_first_entry_of_its_list(tmp_path: Path) -> None:
    (hit,) = named(tmp_path, "Failures:", "--------", "", "  1) closes twice", "  2) opens")
    assert hit.line.number == 4
    assert hit.fields == {"test": "closes twice"}


def test_a_header_without_its_list_is_no_hit(tmp_path: Path) -> None:
    assert named(tmp_path, "Failures:", "none at all", "  1) closes twice") == ()


def test_a_header_at_the_end_of_a_log_is_no_hit(tmp_path: Path) -> None:
    assert named(tmp_path, "Failures:", "") == ()
