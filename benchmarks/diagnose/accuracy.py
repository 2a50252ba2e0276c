# SPDX-License-Identifier: Apache-2.0
"""Prints how often `diagnose` names the labelled line: python benchmarks/diagnose/accuracy.py FOLDER [--only SOURCE].

It prints each log whose label was not named, or whose class is wrong.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from categories import is_right_class
from labelled_logs import labelled_logs
from readings import rows_of
from tables import accuracy_table


def main() -> None:
    """Print the misses and the table."""
    folder = Path(sys.argv[1])
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    logs = [log for log in labelled_logs(folder) if only in log.id]
    rows = rows_of(logs)
    for log, row in zip(logs, rows, strict=True):
        reading = row.reading
        if not row.is_named:
            mark = "near" if row.is_shown else "MISS"
            print(f"{mark} {log.path}:{log.spans[0][0]} named {reading.line} {reading.rule}")
        if is_right_class(log.category, reading.class_) is False:
            print(f"CLASS {log.path} {log.category} named {reading.class_} {reading.rule}")
    print("\n".join(accuracy_table(rows)))


if __name__ == "__main__":
    main()
