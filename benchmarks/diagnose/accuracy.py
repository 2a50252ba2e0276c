# SPDX-License-Identifier: Apache-2.0
"""Prints how often `diagnose` names the labelled line: python benchmarks/diagnose/accuracy.py FOLDER [--only SOURCE] [--misses]."""

import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from categories import is_right_class
from labelled_logs import LabelledLog, is_named, is_shown, labelled_logs

from ci_doctor.diagnosis.cause import Diagnosis
from ci_doctor.diagnosis.diagnosis import diagnose, load_rules

_RULES = load_rules()


def _diagnose(log: LabelledLog) -> Diagnosis:
    return diagnose([str(log.path)], _RULES)


def main() -> None:
    """Print the table, and with --misses every log whose label was not named."""
    folder = Path(sys.argv[1])
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    logs = [log for log in labelled_logs(folder) if only in log.id]
    with ProcessPoolExecutor(2) as pool:
        diagnoses = list(pool.map(_diagnose, logs, chunksize=8))
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    classes: list[bool] = []
    for log, diagnosis in zip(logs, diagnoses, strict=True):
        line = diagnosis.best.line if diagnosis.best else None
        total = totals[log.source]
        total[0] += 1
        total[1] += is_named(log.spans, line)
        total[2] += is_shown(log.spans, line)
        class_ = diagnosis.cause.class_ if diagnosis.cause else None
        is_right = is_right_class(log.category, class_)
        if is_right is not None:
            classes.append(is_right)
        if "--misses" in sys.argv and is_right is False:
            rule = diagnosis.cause.rule if diagnosis.cause else "no cause"
            print(f"CLASS {log.path}  {log.category} named {class_} {rule}")
        if "--misses" in sys.argv and not is_named(log.spans, line):
            rule = diagnosis.cause.rule if diagnosis.cause else "no cause"
            mark = "near" if is_shown(log.spans, line) else "MISS"
            text = diagnosis.best.text[:100] if diagnosis.best else ""
            print(f"{mark} {log.path}  label {log.spans[0]}  named {line} {rule}: {text}")
    for source, (count, named, shown) in totals.items():
        print(f"{source:12} {count:4} logs  top-1 {named / count:6.1%}  ex40 {shown / count:6.1%}")
    if classes:
        print(f"{'classes':12} {len(classes):4} logs  right {sum(classes) / len(classes):6.1%}")


if __name__ == "__main__":
    main()
