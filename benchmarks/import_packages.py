# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor import-race --confirm` says of real packages that two threads import.

    python benchmarks/import_packages.py --python PY      every package that the interpreter PY has
    python benchmarks/import_packages.py --record         also appends the result to benchmarks/RESULTS.md

Each program ends well by itself: a thread imports one half of a package and uses it, the main thread imports the other half
a moment later. An error is right only if the run that it names printed or lost something; the table shows how that run ended.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("RESULTS.md")
LIMIT_S = 600.0
# By package: what the thread does, and what the main thread does.
PACKAGES = {
    "pandas": ("import pandas; pandas.DataFrame({'a': [1]})", "import pandas.io.json; import pandas; pandas.Series([1])"),
    "scipy": ("import scipy.stats; scipy.stats.norm", "import scipy.optimize; scipy.optimize.minimize"),
    "sklearn": ("import sklearn.linear_model as m; m.Ridge()", "from sklearn import tree; tree.DecisionTreeClassifier()"),
    "sqlalchemy": ("import sqlalchemy as s; s.create_engine('sqlite://')", "from sqlalchemy.orm import Session; Session"),
    "transformers": ("import transformers", "from transformers import GenerationConfig"),
    "numpy": ("import numpy; numpy.ones(3)", "import numpy.linalg; numpy.linalg.inv"),
    "requests": ("import requests; requests.Session()", "from requests.adapters import HTTPAdapter; HTTPAdapter"),
    "boto3": ("import boto3; boto3.session.Session()", "import botocore.session; botocore.session.Session()"),
    "matplotlib": ("import matplotlib.pyplot as p; p.Figure", "import matplotlib.figure; matplotlib.figure.Figure()"),
    "lxml": ("import lxml.etree; lxml.etree.XML('<a/>')", "import lxml.html; lxml.html.fromstring('<p>a')"),
    "google.cloud.storage": ("from google.cloud import storage; storage.Client", "import google.api_core.retry; google.api_core.retry.Retry"),
    "pydantic": ("import pydantic; pydantic.BaseModel", "from pydantic.fields import Field; Field()"),
    "fastapi": ("import fastapi; fastapi.FastAPI()", "from fastapi.testclient import TestClient; TestClient"),
    "aiohttp": ("import aiohttp; aiohttp.ClientSession", "import aiohttp.web; aiohttp.web.Application"),
    "PIL": ("import PIL.Image; PIL.Image.new('L', (1, 1))", "import PIL.ImageDraw; PIL.ImageDraw.Draw"),
    "sympy": ("import sympy; sympy.Symbol('x')", "import sympy.core.numbers; sympy.core.numbers.Integer(1)"),
    "networkx": ("import networkx; networkx.Graph()", "import networkx.algorithms.shortest_paths as s; s.shortest_path"),
}  # fmt: skip
PROGRAM = """
import threading, time
done = []
def background():
    {background}
    done.append(1)
thread = threading.Thread(target=background, name="worker")
thread.start()
deadline = time.monotonic() + 1
while not done and time.monotonic() < deadline:
    time.sleep(0.01)
{foreground}
print("fine")
"""


class Trial(NamedTuple):
    """How a package fared; `blamed` are the modules of errors, `suspected` those of warnings."""

    package: str
    exit_code: int
    verdict: str
    blamed: str
    suspected: str
    ends: str
    runs: int
    seconds: float


def trial(package: str, python: str, tool: Path, candidates: int) -> Trial:
    background, foreground = PACKAGES[package]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "app.py").write_text(
            PROGRAM.format(background=background, foreground=foreground.replace("; ", "\n"))
        )
        began = time.monotonic()
        words = [sys.executable, "-m", "ci_doctor", "import-race", "--confirm", "--json"]
        words += ["--candidates", str(candidates), "--", python, "app.py"]
        ended = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(tool)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=LIMIT_S * 3,
        )
        seconds = time.monotonic() - began
    report: dict[str, Any] = json.loads(ended.stdout)
    return Trial(
        package=package,
        exit_code=ended.returncode,
        verdict=str(report["verdict"]),
        blamed="; ".join(_summaries(report, "error")),
        suspected="; ".join(_summaries(report, "warning")),
        ends=", ".join(_ends(report)),
        runs=len(report["attempts"]) - 1,
        seconds=seconds,
    )


def _summaries(report: dict[str, Any], severity: str) -> Iterator[str]:
    for finding in report["findings"]:
        if finding["severity"] == severity:
            yield finding["summary"].split(", and threads")[0].split(", and thread ")[0]


def _ends(report: dict[str, Any]) -> Iterator[str]:
    """How the runs ended in which something fired."""
    for attempt in report["attempts"][1:]:
        if attempt["facts"]["fired"]:
            yield str(attempt["facts"]["exit_code"])


def row(found: Trial) -> str:
    return (
        f"| {found.package} | {found.verdict} ({found.exit_code}) | {found.blamed or '-'} | "
        f"{found.ends or '-'} | {found.suspected or '-'} | {found.runs} | {found.seconds:.0f} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter with the packages"
    )
    parser.add_argument("--tool", type=Path, default=ROOT, help="the ci-doctor to try")
    parser.add_argument("--candidates", type=int, default=4)
    parser.add_argument("--only", action="append", help="this package; may be repeated")
    parser.add_argument("--record", action="store_true", help="append the result to RESULTS.md")
    arguments = parser.parse_args()
    head = "| package | verdict | errors | those runs ended with | warnings | runs | s |\n|---|---|---|---|---|--:|--:|"
    print(head, flush=True)
    rows = []
    for package in arguments.only or PACKAGES:
        known = subprocess.run(
            [arguments.python, "-c", f"import {package}"], capture_output=True, check=False
        )
        if known.returncode:
            continue
        rows.append(row(trial(package, arguments.python, arguments.tool, arguments.candidates)))
        print(rows[-1], flush=True)
    if arguments.record:
        text = f"\n## {datetime.now(UTC):%Y-%m-%d}: import races of real packages\n\n"
        text += f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs\n\n{head}\n"
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(text + "\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
