# SPDX-License-Identifier: Apache-2.0
"""Measures `diagnose` on labelled logs and on logs of passing runs, and fits its confidence.

    python benchmarks/diagnose/evaluate.py LABELLED PASSING [--write] [--record]

LABELLED is a folder with a manifest of labelled logs, PASSING one that `passing_logs.py` has filled.
Each log is read plain and in frames of CI systems (`framed_logs.py`): once with the noise that the
coefficients are fitted on, once with other noise, by which they are measured.
--write replaces the coefficients in `ci_doctor/diagnosis/calibration.json`; --record appends the
tables to RESULTS.md.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from framed_logs import framed_logs, framed_passing, short_passing
from labelled_logs import LabelledLog, labelled_logs
from logistic import fit
from readings import FOLDS, Row, folds, own_support, passing_rows, rows_of
from results import options, record
from tables import accuracy_table, calibration_table

from ci_doctor.diagnosis import rank
from ci_doctor.diagnosis.rank import Calibration, probability

# Of passing logs, on how many a cause may be named: the aim is 1 in 100 on logs that are not here.
_PASSING_SHARE = 0.007
_LEAST = 0.4


def cross_validated(rows: Sequence[Row], fitted: Sequence[Row]) -> list[float]:
    """For each row the confidence by coefficients from those `fitted` that are not of its fold."""
    fold_of = folds([row.group for row in fitted])
    sure = [0.0] * len(rows)
    for fold in range(FOLDS):
        coefficients = fit(_samples([row for row in fitted if fold_of[row.group] != fold]))
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


class Rows(NamedTuple):
    """The rows of all logs, by the form in which they were read."""

    plain: list[Row]
    framed: list[Row]
    held_out: list[Row]


def report(labelled: Path, passing: Path) -> tuple[list[str], Calibration]:
    """The tables, and the calibration for the shipped rules."""
    logs = labelled_logs(labelled)
    with_all = rows_of(logs)
    removed = own_support(with_all)
    with TemporaryDirectory() as folder:
        honest = _read(logs, removed, Path(folder))
        passed = _read_passing(passing, Path(folder))
    plain = [*honest.plain, *passed.plain]
    fitted = [*plain, *honest.framed, *passed.framed]
    held_out = [*honest.held_out, *passed.held_out]
    sure, sure_held_out = cross_validated(plain, fitted), cross_validated(held_out, fitted)
    least = threshold([*plain, *held_out], [*sure, *sure_held_out])
    coefficients = {name: round(value, 3) for name, value in fit(_samples(fitted)).items()}
    lines = [
        "All rules, on the logs that they were developed on:",
        "",
        *accuracy_table(with_all),
        "",
        f"Each log without the rules that only its own fold supports ({FOLDS} folds by repository):",
        "",
        *accuracy_table(honest.plain),
        "",
        "The same in a frame, with noise that no point and no coefficient was chosen on:",
        "",
        *accuracy_table(honest.held_out),
        "",
        "Confidence, by coefficients fitted without the log's fold:",
        "",
        *calibration_table(plain, sure),
        "",
        "The same in a frame with that noise:",
        "",
        *calibration_table(held_out, sure_held_out),
        "",
        f"A cause is named from a confidence of {least} on.",
        f"Plain: {_causes(plain, sure, least)}",
        f"In a frame, or short: {_causes(held_out, sure_held_out, least)}",
    ]
    return lines, Calibration(least=least, coefficients=coefficients)


def _read(logs: Sequence[LabelledLog], removed: Sequence[frozenset[str]], folder: Path) -> Rows:
    framed = framed_logs(logs, folder / "framed", held_out=False)
    held_out = framed_logs(logs, folder / "held-out", held_out=True)
    return Rows(rows_of(logs, removed), rows_of(framed, removed), rows_of(held_out, removed))


def _read_passing(passing: Path, folder: Path) -> Rows:
    paths = sorted(passing.glob("*.log"))
    framed_passing(paths, folder / "passing", held_out=False)
    framed_passing(paths, folder / "passing-held-out", held_out=True)
    short_passing(folder / "short", held_out=False)
    short_passing(folder / "short-held-out", held_out=True)
    framed = [*passing_rows(folder / "passing"), *passing_rows(folder / "short")]
    held_out = [
        *passing_rows(folder / "passing-held-out"),
        *passing_rows(folder / "short-held-out"),
    ]
    return Rows(passing_rows(passing), framed, held_out)


def _causes(rows: Sequence[Row], sure: Sequence[float], least: float) -> str:
    named = [row for row, each in zip(rows, sure, strict=True) if each >= least]
    passing = sum(row.source == "passing" for row in named)
    all_passing = sum(row.source == "passing" for row in rows)
    failed = len(rows) - all_passing
    causes = len(named) - passing
    return f"in {causes} of {failed} failed logs, and in {passing} of {all_passing} passing ones."


def main() -> None:
    """Print the tables; write and record if asked."""
    parser = options(__doc__)
    parser.add_argument("labelled", type=Path, metavar="LABELLED")
    parser.add_argument("passing", type=Path, metavar="PASSING")
    parser.add_argument("--write", action="store_true", help="write the fitted calibration")
    arguments = parser.parse_args()
    lines, fitted = report(arguments.labelled, arguments.passing)
    print("\n".join(lines))
    if arguments.write:
        target = Path(rank.__file__).with_name("calibration.json")
        content = msgspec.json.format(msgspec.json.encode(fitted), indent=2)
        target.write_bytes(content + b"\n")
    if arguments.record:
        record("diagnosis, labelled logs and passing ones", lines)


if __name__ == "__main__":
    main()
