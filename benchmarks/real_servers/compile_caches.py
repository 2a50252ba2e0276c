# SPDX-License-Identifier: Apache-2.0
"""Acts on folders: what a compile cache of vLLM that was saved is worth at the same path, in another folder, in another environment.

The first start compiles, and its caches are saved. Each later one gets them by `cache restore` in a folder that was empty, and
`cache verify --effect` says what that was worth. Expectations were written down before a run.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from real_servers import place

Row = dict[str, Any]


class Start(NamedTuple):
    """Where a start keeps its caches, by whose Python it runs, and the effect that is right; None: it makes the cache."""

    name: str
    folder: str = "cache"
    is_copied: bool = False
    expected: str | None = "paid"


# vLLM's key of a compiled graph holds its own source's path: a copy of the environment at another path compiles again.
STARTS = (
    Start("cold", expected=None),
    Start("same-path"),
    Start("other-folder", folder="elsewhere"),
    Start("other-environment", is_copied=True, expected="inert"),
)
HEAD = ("start", "expected", "said", "right", "ready after s", "compiling saved s", "load")
ABOUT = """Llama of two layers with torch.compile (AOT and Inductor, on processors). Saved: what `cache verify --effect` says.
Load: the machine's average of the last minute, before and after."""
_FAMILIES = ("vllm", "vllm-aot", "inductor", "inductor-cpu", "inductor-headers")
_READY = re.compile(r"vllm ready after (?:(?P<minutes>\d+) min )?(?P<seconds>[\d.]+)")
_EVERY = "compile-caches"


def run(start: Start) -> Row:
    """The row of a start; the one that is kept if it has ended before.

    Raises MissingEnvironmentError, RuntimeError, and CalledProcessError if a command of ci-doctor fails.
    """
    kept = place.kept_row(_EVERY, start.name)
    if kept is not None:
        return kept
    common = place.folder_of(_EVERY, STARTS[0].name).parent
    if start.expected is not None and not (common / "store").is_dir():
        raise RuntimeError(f"{STARTS[0].name} has not run")
    with place.machine():
        row = _measured(start, common)
    place.keep_row(_EVERY, start.name, row)
    return row


def table_row(start: Start, row: Row) -> list[str]:
    """The cells of HEAD."""
    saved = row["saved_s"]
    return [
        start.name,
        start.expected or "–",
        row["effect"] or "–",
        "WRONG" if row["problems"] else "yes",
        str(row["ready_s"]),
        "–" if saved is None else f"{saved:.1f}",
        ", ".join(map(str, row["load"])),
    ]


def _measured(start: Start, common: Path) -> Row:
    folder = place.folder_of(_EVERY, start.name)
    # The same folders in each start: only what the name says is another one.
    for name in ("cache", "elsewhere", "tmp", "state"):
        shutil.rmtree(common / name, ignore_errors=True)
    (common / "tmp").mkdir()
    python = _copied(common) if start.is_copied else place.interpreter()
    given = ["--store", str(common / "store"), "--python", str(python)]
    given += [word for name in _FAMILIES for word in ("--family", name)]
    environ = _environ(common, common / start.folder)
    if start.expected is not None:
        _cache(folder, "restore", given, environ)
    before = place.load()
    ready_s = _ready_after(folder, python, environ)
    row: Row = {
        "ready_s": ready_s,
        "load": [before, place.load()],
        "effect": None,
        "saved_s": None,
        "problems": [],
    }
    row["environment"] = place.VLLM
    if start.expected is None:
        _cache(folder, "save", given, environ)
        return row
    log = ["--log", str(folder / "launch/logs/vllm-1.log")]
    facts = _cache(folder, "verify", ["--effect", *log, *given], environ)["facts"]
    [graphs] = [each for each in facts["caches"] if each["family"] == "vllm-aot"]
    row |= {"effect": graphs["effect"], "saved_s": graphs["saved_s"], "caches": facts["caches"]}
    if graphs["effect"] != start.expected:
        row["problems"] = [f"{graphs['effect']}, not {start.expected}: {graphs['reason']}"]
    return row


def _copied(common: Path) -> Path:
    """The environment at another path, by hard links; its interpreter."""
    environment = place.interpreter().parent.parent
    copy = common / "environment"
    if not copy.exists():
        subprocess.run(["cp", "-al", environment, copy], check=True)
    return copy / "bin" / "python"


def _environ(common: Path, root: Path) -> dict[str, str]:
    own = {
        "VLLM_CACHE_ROOT": str(root), "TORCHINDUCTOR_CACHE_DIR": str(root / "inductor"),
        "TMPDIR": str(common / "tmp"), "CI_DOCTOR_STATE_DIR": str(common / "state"),
    }  # fmt: skip
    return os.environ | place.ENVIRON | own


def _cache(folder: Path, name: str, given: list[str], environ: dict[str, str]) -> Row:
    words = ["cache", name, *given, "--report-dir", str(folder / name)]
    _ci_doctor(folder, words, environ)
    report: Row = json.loads((folder / name / "report.json").read_text())
    return report


def _ready_after(folder: Path, python: Path, environ: dict[str, str]) -> float:
    """Start vLLM with torch.compile, and stop it when it is ready; the seconds that took."""
    model = str(place.model("llama"))
    server = [
        str(python),
        str(python.with_name("vllm")),
        "serve",
        model,
        "--port",
        "{port}",
        "--served-model-name",
        "m",
    ]
    server += ["--max-model-len", str(place.CONTEXT), "--dtype", "bfloat16"]
    words = [
        "launch",
        "--report-dir",
        str(folder / "launch"),
        "--service",
        f"vllm={shlex.join(server)}",
    ]
    words += ["--ready", "vllm=http://127.0.0.1:{port}/health", "--", "true"]
    ready = _READY.search(_ci_doctor(folder, words, environ))
    if ready is None:
        raise RuntimeError(f"{folder}: the server was never ready")
    return 60 * int(ready["minutes"] or 0) + float(ready["seconds"])


def _ci_doctor(folder: Path, words: list[str], environ: dict[str, str]) -> str:
    """What it says to people."""
    ended = subprocess.run(
        [sys.executable, "-m", "ci_doctor", *words],
        cwd=folder, env=environ, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return ended.stderr
