# SPDX-License-Identifier: Apache-2.0
"""Fits the confidence of `diagnose`: python benchmarks/diagnose/calibrate.py LABELLED PASSING [--write].

LABELLED is a folder with a manifest of labelled logs, PASSING one of logs of passing runs. With
--write the coefficients replace `ci_doctor/diagnosis/calibration.json`.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parent))

from labelled_logs import is_named, labelled_logs
from logistic import fit

from ci_doctor.diagnosis import calibration
from ci_doctor.diagnosis.calibration import Calibration
from ci_doctor.diagnosis.confidence import features, probability
from ci_doctor.diagnosis.diagnosis import load_rules, ranking
from ci_doctor.diagnosis.log_story import read_story
from ci_doctor.diagnosis.reading.open_log import open_log

_FOLDS = 10
# Passing logs on which a cause may be named: the issue allows 2 in 100.
_PASSING_SHARE = 0.015
_RULES = load_rules()


class Row(msgspec.Struct, frozen=True):
    """A log: its features (None without a candidate), whether the label was named, its group."""

    values: dict[str, float] | None
    is_right: bool
    group: str
    source: str


def read(path: Path) -> tuple[dict[str, float] | None, int | None]:
    """The features of the log's ranking and the line named first."""
    with open_log(str(path)) as log:
        ranked = ranking([read_story(log, 0, _RULES)], [log])
    if not ranked:
        return None, None
    return features(ranked), ranked[0].candidate.line.number


def rows(labelled: Path, passing: Path | None) -> list[Row]:
    """A row for each log."""
    logs = labelled_logs(labelled)
    paths = [log.path for log in logs]
    passed = sorted(passing.rglob("*.log")) if passing else []
    with ProcessPoolExecutor(2) as pool:
        results = list(pool.map(read, [*paths, *passed], chunksize=8))
    listed = []
    for log, (values, line) in zip(logs, results[: len(logs)], strict=True):
        listed.append(Row(values, is_named(log.spans, line), log.repository, log.source))
    for path, (values, _) in zip(passed, results[len(logs) :], strict=True):
        listed.append(Row(values, False, path.name.split("-")[0], "passing"))
    return listed


def cross_validated(listed: Sequence[Row]) -> list[float]:
    """For each row the confidence by coefficients that were fitted without its group."""
    groups = sorted({row.group for row in listed})
    fold_of = {group: index % _FOLDS for index, group in enumerate(groups)}
    sure = [0.0] * len(listed)
    for fold in range(_FOLDS):
        coefficients = fit(_samples([row for row in listed if fold_of[row.group] != fold]))
        for index, row in enumerate(listed):
            if fold_of[row.group] == fold and row.values is not None:
                sure[index] = probability(row.values, coefficients)
    return sure


def _samples(listed: Sequence[Row]) -> list[tuple[dict[str, float], bool]]:
    return [(row.values, row.is_right) for row in listed if row.values is not None]


def threshold(listed: Sequence[Row], sure: Sequence[float]) -> float:
    """The confidence that at most one in a hundred passing logs exceeds, at least 0.4."""
    passing = [each for row, each in zip(listed, sure, strict=True) if row.source == "passing"]
    passing.sort(reverse=True)
    allowed = int(len(passing) * _PASSING_SHARE)
    least = passing[allowed] + 0.005 if len(passing) > allowed else 0.0
    return max(0.4, round(least, 3))


def print_calibration(listed: Sequence[Row], sure: Sequence[float]) -> None:
    """How often answers of each confidence are right."""
    print("| said | answers | right |\n|---|--:|--:|")
    for low in (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        high = 0.3 if low == 0.0 else low + 0.1
        chosen = [
            row
            for row, each in zip(listed, sure, strict=True)
            if low <= each < high or (low == 0.9 and each >= 0.9)
        ]
        if chosen:
            right = sum(row.is_right for row in chosen) / len(chosen)
            print(f"| {low:.0%} to {high:.0%} | {len(chosen)} | {right:.0%} |")


def main() -> None:
    """Fit, print the calibration by cross-validation, and write the coefficients if asked."""
    folders = [Path(each) for each in sys.argv[1:] if not each.startswith("-")]
    listed = rows(folders[0], folders[1] if len(folders) > 1 else None)
    sure = cross_validated(listed)
    print_calibration(listed, sure)
    least = threshold(listed, sure)
    coefficients = {name: round(value, 3) for name, value in fit(_samples(listed)).items()}
    named = [row for row, each in zip(listed, sure, strict=True) if each >= least]
    passing = sum(row.source == "passing" for row in named)
    print(
        f"least {least}: a cause in {len(named)} of {len(listed)} logs, {passing} of them passing"
    )
    print(coefficients)
    if "--write" in sys.argv:
        content = msgspec.json.encode(Calibration(least=least, coefficients=coefficients))
        target = Path(calibration.__file__).with_name("calibration.json")
        target.write_bytes(msgspec.json.format(content, indent=2) + b"\n")


if __name__ == "__main__":
    main()
