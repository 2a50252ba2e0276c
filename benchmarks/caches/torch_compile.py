# SPDX-License-Identifier: Apache-2.0
"""Whether a restored TorchInductor cache of a CPU pays, and whether one that would not is refused.

    python benchmarks/caches/torch_compile.py --venv DIR            torch 2.13.0 is installed there, if it is not
    python benchmarks/caches/torch_compile.py --venv DIR --record   also appends the table to benchmarks/RESULTS.md

A transformer of four layers is compiled by real torch, once cold and several times warm. The cache is saved to a
store, removed, and restored to another directory; the precompiled headers are restored where they were. Two controls
restore what the identity refuses, to show what it prevents: a cache for other CPU instructions
(ATEN_CPU_CAPABILITY=avx2, which takes the same path in torch as another CPU), and an environment at another path.
Targets: warm >= 4x faster than cold, the proof says `paid`, both controls are refused. The exit status is 1 otherwise.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from results import load, options, record, table  # noqa: E402

from caches.moved_cache import MovedCache, environment, is_guarded  # noqa: E402
from ci_doctor.caches.families import INDUCTOR_CPU, INDUCTOR_HEADERS  # noqa: E402

VERSIONS = ["torch==2.13.0", "numpy", "setuptools"]
TARGET = 4.0


def work(python: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    ran = subprocess.run(
        [str(python), str(HERE / "torch_workload.py")],
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if ran.returncode:
        return {
            "seconds": None,
            "compilers": None,
            "hits": None,
            "worst": f"died: {ran.returncode}",
        }
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def measure(python: Path, folder: Path, runs: int) -> tuple[list[tuple[str, ...]], float, bool]:
    temporary = folder / "tmp"
    first, second = folder / "first", folder / "second"
    headers_root = temporary / "torchinductor_ci" / "precompiled_headers"
    temporary.mkdir()
    here = {**os.environ, "TMPDIR": str(temporary), "USER": "ci", "LOGNAME": "ci"}
    here.pop("ATEN_CPU_CAPABILITY", None)
    cache = MovedCache(INDUCTOR_CPU, folder / "store", python)
    headers = MovedCache(INDUCTOR_HEADERS, folder / "store", python)

    cold = work(python, {**here, "TORCHINDUCTOR_CACHE_DIR": str(first)})
    cache.save(first, here)
    headers.save(headers_root, here)
    shutil.rmtree(first)
    shutil.rmtree(temporary / "torchinductor_ci")
    rows = [row("cold", cold, "-", "-")]

    decision = cache.decide(second, here)
    passes = not is_guarded(decision) and not is_guarded(headers.decide(headers_root, here))
    warm = []
    for number in range(runs):
        shutil.rmtree(second, ignore_errors=True)
        shutil.rmtree(temporary / "torchinductor_ci", ignore_errors=True)
        headers.restore(headers_root)
        cache.restore(second)
        since = time.time_ns()
        warm.append(work(python, {**here, "TORCHINDUCTOR_CACHE_DIR": str(second)}))
        effect = cache.effect(second, since)
        rows.append(row(f"restored to another directory, {number + 1}", warm[-1], decision, effect))
        passes &= effect.effect == "paid"
    ratio = cold["seconds"] / median(each["seconds"] for each in warm)
    passes &= ratio >= TARGET

    for title, other, environ in (
        ("other CPU instructions", python, {**here, "ATEN_CPU_CAPABILITY": "avx2"}),
        ("environment at another path", copied(python, folder), here),
    ):
        decision = cache.decide(second, environ, other)
        passes &= is_guarded(decision)
        shutil.rmtree(second)
        cache.restore(second)
        since = time.time_ns()
        control = work(other, {**environ, "TORCHINDUCTOR_CACHE_DIR": str(second)})
        rows.append(row(f"{title} (control)", control, decision, cache.effect(second, since)))
    return rows, ratio, bool(passes)


def copied(python: Path, folder: Path) -> Path:
    """The same environment at another path: hard links cost nothing, and keep all times."""
    other = folder / "elsewhere"
    subprocess.run(["cp", "-al", str(python.parent.parent), str(other)], check=True)
    return other / "bin" / "python"


def row(title: str, run: Mapping[str, Any], decision: object, effect: Any) -> tuple[str, ...]:
    kind = decision if isinstance(decision, str) else describe(decision)
    proof = effect if isinstance(effect, str) else f"{effect.effect}: {effect.reason}"
    seconds = "-" if run["seconds"] is None else f"{run['seconds']:.2f}"
    worst = "NaN" if run["worst"] is None else run["worst"]
    worst = f"{worst:.1e}" if isinstance(worst, float) else worst
    return (title, seconds, str(run["compilers"]), str(run["hits"]), str(worst), kind, proof)


def describe(decision: Any) -> str:
    facts = ", ".join(each.fact for each in getattr(decision, "differences", ()))
    return f"{type(decision).__name__} {facts}".strip()


HEAD = (
    "job | first call, s | compiler runs | torch's hits | worst difference | identity says | proof"
)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--venv", type=Path, required=True, help="an environment with torch 2.13.0")
    parser.add_argument("--runs", type=int, default=3, help="warm runs")
    arguments = parser.parse_args()
    python = environment(arguments.venv.absolute(), VERSIONS)
    before = load()
    # Beside the environment: hard links end at a file system's border.
    parent = arguments.venv.absolute().parent
    with tempfile.TemporaryDirectory(dir=parent, prefix="torch-compile-") as folder:
        rows, ratio, passes = measure(python, Path(folder), arguments.runs)
    lines = [
        *table(HEAD, rows),
        "",
        f"- warm is {ratio:.1f}x faster than cold (target {TARGET:g}x)",
        f"- {'PASS' if passes else 'FAIL'}",
    ]
    print(*lines, sep="\n")
    if arguments.record:
        title = "torch.compile on a CPU, cache restored elsewhere"
        record(title, lines, f", torch 2.13.0{before}")
    return 0 if passes else 1


if __name__ == "__main__":
    sys.exit(main())
