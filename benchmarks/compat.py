# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor compat` costs on published packages, beside griffe's loader, pyright and mypy.

    python benchmarks/compat.py                        lmcache and vllm, newest releases, downloaded by pip
    python benchmarks/compat.py --caller A --callee B  two wheels, or two requirements
    python benchmarks/compat.py --record               also appends the table to benchmarks/RESULTS.md

Seconds are CPU time of a process of its own, user and system; memory is its largest resident set. `griffe` loads all of the
callee. pyright and mypy check the caller's files that name the callee, with both sources on their path. Each of the three runs
if it is installed, and the errors are counted as they come: most are about packages that are not there.
"""

import argparse
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("RESULTS.md")
_LOADS_ALL = (
    "import griffe, sys; griffe.load(sys.argv[1], search_paths=[sys.argv[2]], submodules=True)"
)


class Cost(NamedTuple):
    """A row of the table."""

    tool: str
    seconds: float
    megabytes: int
    found: str

    @property
    def row(self) -> str:
        """As Markdown."""
        return f"| {self.tool} | {self.seconds:.1f} | {self.megabytes} | {self.found} |"


def wheel_of(text: str, directory: Path) -> Path:
    """A local wheel, or the one that pip downloads for a requirement."""
    if Path(text).is_file():
        return Path(text)
    target = directory / re.sub(r"\W+", "-", text)
    words = ("download", "--quiet", "--no-deps", "--only-binary", ":all:", "-d", str(target))
    subprocess.run([sys.executable, "-m", "pip", *words, text], check=True)
    (wheel,) = target.glob("*.whl")
    return wheel


def measured(tool: str, command: Sequence[str | Path], cwd: Path) -> tuple[Cost, str]:
    """The cost of a command in a process of its own, and what it printed."""
    program = (
        "import json, resource, subprocess, sys\n"
        "ran = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss, ran.stdout, ran.stderr[-400:]]))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *map(str, command)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, kilobytes, output, _ = json.loads(ran.stdout)
    return Cost(tool, seconds, kilobytes // 1024, ""), output


def own(caller: Path, callee: Path) -> Cost:
    """ci-doctor itself."""
    command = (sys.executable, "-m", "ci_doctor", "compat", caller, callee, "--json")
    cost, output = measured("ci-doctor compat", command, ROOT)
    facts = json.loads(output)["facts"]
    sites = ", ".join(f"{count} {kind}" for kind, count in sorted(facts["resolved"].items()))
    return cost._replace(found=f"{len(facts['breaks'])} breaks in {sites}")


def unpacked(wheels: Sequence[Path], directory: Path) -> Path:
    """The source of the wheels in one directory."""
    site = directory / "site"
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            named = [name for name in archive.namelist() if name.endswith((".py", ".pyi"))]
            archive.extractall(site, named)
    return site


def top_of(wheel: Path) -> str:
    """The import name of a wheel: its first package."""
    with zipfile.ZipFile(wheel) as archive:
        inits = [name for name in archive.namelist() if name.count("/") == 1]
    return next(name.partition("/")[0] for name in inits if name.endswith("/__init__.py"))


def checkers(site: Path, caller: str, callee: str, directory: Path) -> list[Cost]:
    """Pyright and mypy on the caller's files that name the callee, if they are installed."""
    pattern = re.compile(rf"\b{callee}\b")
    files = [
        path
        for path in sorted((site / caller).rglob("*.py"))
        if pattern.search(path.read_text(errors="replace"))
    ]
    costs = []
    if shutil.which("pyright"):
        settings = directory / "pyrightconfig.json"
        settings.write_text(
            json.dumps({"include": list(map(str, files)), "extraPaths": [str(site)]})
        )
        command: Sequence[str | Path] = ("pyright", "--outputjson", "-p", settings)
        cost, output = measured("pyright", command, directory)
        costs.append(cost._replace(found=f"{json.loads(output)['summary']['errorCount']} errors"))
    if shutil.which("mypy"):
        flags = ("--ignore-missing-imports", "--follow-imports=silent", "--explicit-package-bases")
        cost, output = measured("mypy", ("mypy", *flags, *files), site)
        count = sum(": error:" in line for line in output.splitlines())
        costs.append(cost._replace(found=f"{count} errors"))
    return costs


def main() -> None:
    """Measure, print, and append the table if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--caller", default="lmcache")
    parser.add_argument("--callee", default="vllm")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        caller = wheel_of(arguments.caller, directory)
        callee = wheel_of(arguments.callee, directory)
        costs = [own(caller, callee)]
        site = unpacked((caller, callee), directory)
        if importlib.util.find_spec("griffe") is not None:
            loads = (sys.executable, "-c", _LOADS_ALL, top_of(callee), site)
            costs.append(measured("griffe, all of the callee", loads, directory)[0])
        costs += checkers(site, top_of(caller), top_of(callee), directory)
    title = f"{caller.name.split('-cp')[0]} calls {callee.name.split('-cp')[0]}"
    lines = [
        f"| {title} | CPU s | MB | found |",
        "|---|--:|--:|---|",
        *(each.row for each in costs),
    ]
    print("\n".join(lines))
    if arguments.record:
        heading = f"\n## compat, {datetime.now(UTC):%Y-%m-%d}\n\n"
        with RESULTS.open("a", encoding="utf-8") as results:
            results.write(heading + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
