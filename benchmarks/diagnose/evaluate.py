# SPDX-License-Identifier: Apache-2.0
"""Measures `diagnose` on labelled logs and on logs of passing runs, and fits its confidence.

    python benchmarks/diagnose/evaluate.py LABELLED PASSING [--write] [--record]

LABELLED is a folder with a manifest of labelled logs, PASSING one that `passing_logs.py` has filled.
--write replaces the coefficients in `ci_doctor/diagnosis/calibration.json`; --record appends the
tables to RESULTS.md.
"""

import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parent))

from labelled_logs import labelled_logs
from logistic import fit
from peers import peer_table
from readings import FOLDS, Row, folds, passing_rows, rows_of, rows_without_own_support
from tables import accuracy_table, calibration_table

from ci_doctor.diagnosis import calibration
from ci_doctor.diagnosis.calibration import Calibration
from ci_doctor.diagnosis.confidence import probability

RESULTS = Path(__file__).parents[1] / "RESULTS.md"
# Of passing logs, on how many a cause may be named: the aim is 2 in 100 on logs that are not here.
_PASSING_SHARE = 0.015
_LEAST = 0.4


def cross_validated(rows: Sequence[Row]) -> list[float]:
    """For each row the confidence by coefficients that were fitted without its fold."""
    fold_of = folds([row.group for row in rows])
    sure = [0.0] * len(rows)
    for fold in range(FOLDS):
        coefficients = fit(_samples([row for row in rows if fold_of[row.group] != fold]))
        for index, row in enumerate(rows):
            if fold_of[row.group] == fold and row.reading.values is not None:
                sure[index] = probability(row.reading.values, coefficients)
    return sure


def _samples(rows: Sequence[Row]) -> list[tuple[dict[str, float], bool]]:
    return [(row.reading.values, row.is_named) for row in rows if row.reading.values is not None]


def threshold(rows: Sequence[Row], sure: Sequence[float]) -> float:
    """The least confidence of a cause: as few passing logs exceed it as may, and at least 0.4."""
    passing = [each for row, each in zip(rows, sure, strict=True) if row.source == "passing"]
    passing.sort(reverse=True)
    allowed = int(len(passing) * _PASSING_SHARE)
    return max(_LEAST, round(passing[allowed] + 0.005, 3))


def report(labelled: Path, passing: Path) -> tuple[list[str], Calibration]:
    """The tables, and the calibration for the shipped rules."""
    logs = labelled_logs(labelled)
    with_all = rows_of(logs)
    honest = rows_without_own_support(logs, with_all)
    passed = passing_rows(passing)
    rows = [*honest, *passed]
    sure = cross_validated(rows)
    least = threshold(rows, sure)
    coefficients = {name: round(value, 3) for name, value in fit(_samples(rows)).items()}
    lines = [
        "All rules, on the logs that they were developed on:",
        "",
        *accuracy_table(with_all),
        "",
        f"Each log without the rules that only its own fold supports ({FOLDS} folds by repository):",
        "",
        *accuracy_table(honest),
        "",
        "Confidence, by coefficients fitted without the log's fold:",
        "",
        *calibration_table(rows, sure),
        "",
        *_causes(rows, sure, least),
        "",
        *peer_table(),
    ]
    return lines, Calibration(least=least, coefficients=coefficients)


def _causes(rows: Sequence[Row], sure: Sequence[float], least: float) -> list[str]:
    named = [row for row, each in zip(rows, sure, strict=True) if each >= least]
    passing = sum(row.source == "passing" for row in named)
    all_passing = sum(row.source == "passing" for row in rows)
    failed = len(rows) - all_passing
    causes = len(named) - passing
    return [
        f"A cause is named from a confidence of {least} on.",
        f"That is in {causes} of {failed} failed logs, and in {passing} of {all_passing} passing ones.",
    ]


def record(lines: Sequence[str]) -> None:
    """Append the tables to RESULTS.md."""
    machine = f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} CPUs"
    title = f"## {datetime.now(UTC):%Y-%m-%d}: diagnosis, labelled logs and passing ones"
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write("\n".join(["", title, "", machine, "", *lines]) + "\n")


def main() -> None:
    """Print the tables; write and record if asked."""
    labelled, passing = (Path(each) for each in sys.argv[1:] if not each.startswith("-"))
    lines, fitted = report(labelled, passing)
    print("\n".join(lines))
    if "--write" in sys.argv:
        target = Path(calibration.__file__).with_name("calibration.json")
        content = msgspec.json.format(msgspec.json.encode(fitted), indent=2)
        target.write_bytes(content + b"\n")
    if "--record" in sys.argv:
        record(lines)


if __name__ == "__main__":
    main()
