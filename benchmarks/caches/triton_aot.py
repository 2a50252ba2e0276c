# SPDX-License-Identifier: Apache-2.0
"""Whether kernels that Triton compiled ahead of time are hit after a restore to another directory.

    python benchmarks/caches/triton_aot.py --venv DIR            triton 3.9.0 is installed there, if it is not
    python benchmarks/caches/triton_aot.py --venv DIR --record   also appends the table to benchmarks/RESULTS.md

48 kernels for three GPU architectures, by real Triton without a GPU. The cache is saved to a store, removed, and
restored to another directory: with its group files rewritten, and as a control as it was saved. Hits are those that
Triton's own listener counts. Target: all of them after relocation, and the proof says `paid`. The exit status is 1
otherwise.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from results import load, options, record, table  # noqa: E402

from caches.moved_cache import MovedCache, environment  # noqa: E402
from ci_doctor.caches.families import TRITON  # noqa: E402
from ci_doctor.caches.judge import Relocate  # noqa: E402

VERSIONS = ["triton==3.9.0", "setuptools"]


def work(python: Path, root: Path) -> dict[str, Any]:
    ran = subprocess.run(
        [str(python), str(HERE / "triton_workload.py")],
        env={**os.environ, "TRITON_CACHE_DIR": str(root)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def measure(python: Path, folder: Path) -> tuple[list[tuple[str, ...]], bool]:
    first = folder / "first"
    cache = MovedCache(TRITON, folder / "store", python)
    cold = work(python, first)
    cache.save(first, os.environ)
    shutil.rmtree(first)
    rows = [row("cold", cold, "-")]
    passes = isinstance(cache.decide(folder / "second", os.environ), Relocate)
    for title, name, relocated in (
        ("restored elsewhere, relocated", "second", True),
        ("restored elsewhere as saved (control)", "third", False),
    ):
        root = folder / name
        cache.restore(root, relocated=relocated)
        since = time.time_ns()
        warm = work(python, root)
        effect = cache.effect(root, since)
        rows.append(row(title, warm, f"{effect.effect}: {effect.reason}"))
        if relocated:
            passes &= warm["hits"] == warm["compiles"] and effect.effect == "paid"
        else:
            passes &= warm["hits"] < warm["compiles"] and effect.effect == "inert"
    return rows, passes


def row(title: str, run: dict[str, Any], proof: str) -> tuple[str, ...]:
    return (title, f"{run['seconds']:.2f}", f"{run['hits']}/{run['compiles']}", proof)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--venv", type=Path, required=True, help="an environment with triton 3.9.0")
    arguments = parser.parse_args()
    python = environment(arguments.venv.absolute(), VERSIONS)
    before = load()
    with tempfile.TemporaryDirectory(prefix="triton-aot-") as folder:
        rows, passes = measure(python, Path(folder))
    lines = table("job | compiles, s | hits | proof", rows)
    lines += ["", f"- {'PASS' if passes else 'FAIL'}"]
    print(*lines, sep="\n")
    if arguments.record:
        title = "Triton ahead of time, cache restored elsewhere"
        record(title, lines, f", triton 3.9.0{before}")
    return 0 if passes else 1


if __name__ == "__main__":
    sys.exit(main())
