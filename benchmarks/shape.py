# SPDX-License-Identifier: Apache-2.0
"""The size and density of the package's code.

    python benchmarks/shape.py                        prints the figures of ci_doctor
    python benchmarks/shape.py path/to/tox …          prints those of other packages beside them
    python benchmarks/shape.py --record               also appends the table to benchmarks/RESULTS.md

Give other packages as directories, for example below the site-packages of a virtual environment.
All packages are counted alike. Tests are counted only in a source tree.
The aims are values to come near to, taken from pre-commit, tox, nox, coverage.py and structlog, so
the exit status is 0 whatever the figures.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from density.project import read_package
from density.summary import Package, as_markdown, as_text, repeated_classes, rows
from results import record

OURS = Path(__file__).parents[1] / "ci_doctor"


def read_packages(directories: Sequence[Path]) -> list[Package]:
    try:
        return [read_package(directory) for directory in directories]
    except (NotADirectoryError, SyntaxError, ValueError) as error:
        raise SystemExit(str(error)) from error


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "packages", nargs="*", type=Path, metavar="DIR", help="another package to compare with"
    )
    parser.add_argument("--record", action="store_true", help="append the result to RESULTS.md")
    arguments = parser.parse_args()
    # Ours last: what was named wrongly is said before seconds are spent on it.
    others = read_packages(arguments.packages)
    packages = [*read_packages([OURS]), *others]
    names = [package.name for package in packages]
    table = rows(packages)
    classes = ", ".join(repeated_classes(packages[0])) or "none"
    repeated = f"class names used twice or more: {classes}"
    print(*as_text(names, table), "", repeated, sep="\n")
    if arguments.record:
        record("shape of the code", [*as_markdown(names, table), "", repeated])
    return 0


if __name__ == "__main__":
    sys.exit(main())
