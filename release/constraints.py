# SPDX-License-Identifier: Apache-2.0
"""Reads this interpreter's packages, and writes install/constraints.txt: versions with which the tests passed.

    sh tests/run.sh && .venv/bin/python -m release.constraints --write
    .venv/bin/python -m release.constraints       ends with 1 if the file and this interpreter differ

The file pins what ci-doctor and all its extras need, directly or not. Dependencies of development are left out.
"""

import argparse
import difflib
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FILE = Path(__file__).resolve().parents[1] / "install" / "constraints.txt"
DISTRIBUTION = "ci-doctor-toolkit"
HEAD = """\
# Versions with which the tests of ci-doctor passed, for: pip install -c constraints.txt 'ci-doctor-toolkit[all]'
# Made by `python -m release.constraints --write`. Do not edit.
"""


def constraints() -> str:
    """The file's text for this interpreter's packages; raises StopIteration without ours."""
    # A build leaves metadata of its own in the checkout, as old as the build, and without RECORD.
    ours = next(each for each in distributions(name=DISTRIBUTION) if each.read_text("RECORD"))
    installed, absent = _closure(ours)
    lines = [f"{canonicalize_name(name)}=={version}\n" for name, version in installed.items()]
    missing = f"# Not installed where the tests ran: {', '.join(absent)}\n" if absent else ""
    return HEAD + missing + "".join(sorted(lines))


def _closure(ours: Distribution) -> tuple[dict[str, str], list[str]]:
    """Version by name of all that `ours` and its extra `all` need, and names of what is not here."""
    installed: dict[str, str] = {}
    absent: set[str] = set()
    pending = [Requirement(f"{DISTRIBUTION}[all]")]
    done: set[str] = set()
    while pending:
        requirement = pending.pop()
        if str(requirement) in done:
            continue
        done.add(str(requirement))
        name = canonicalize_name(requirement.name)
        try:
            package = ours if name == DISTRIBUTION else distribution(name)
        except PackageNotFoundError:
            absent.add(name)
            continue
        if package is not ours:
            installed[name] = package.version
        pending += _needs(package, requirement.extras)
    return installed, sorted(absent)


def _needs(package: Distribution, extras: set[str]) -> Iterator[Requirement]:
    """What `found` requires with `extras` on this machine."""
    for line in package.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": each}) for each in ("", *extras)):
            requirement.marker = None
            yield requirement


def main(words: Sequence[str] | None = None) -> int:
    """Write the file, or say how it differs; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write install/constraints.txt")
    wanted = constraints()
    if parser.parse_args(words).write:
        FILE.write_text(wanted, encoding="utf-8")
        return 0
    present = FILE.read_text(encoding="utf-8")
    lines = difflib.unified_diff(
        present.splitlines(), wanted.splitlines(), str(FILE.name), "this interpreter", lineterm=""
    )
    difference = "\n".join(lines)
    if difference:
        print(difference)
        print("constraints.py: run the tests, then again with --write", file=sys.stderr)
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
