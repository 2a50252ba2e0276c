# SPDX-License-Identifier: Apache-2.0
"""Acts on a folder: what a saved compile cache of vLLM is worth at the same path, in another folder, in another environment.

The first start compiles, and its caches are saved. Each later one gets them by `cache restore`, in a folder that was empty,
and `cache verify --effect` says what that was worth. Expected, before the run: the same path and the other folder are paid.
In a copy of the environment at another path the key of the graphs differs, and that is said: inert.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from real_servers import place
from real_servers.breaking import Scene, compiled

EXPECTED = {"same": "paid", "folder": "paid", "environment": "inert"}
_FAMILIES = ("vllm", "vllm-aot", "inductor", "inductor-cpu", "inductor-headers")
_READY = re.compile(r"vllm ready after (?:(?P<minutes>\d+) min )?(?P<seconds>[\d.]+)")


def measured() -> dict[str, Any]:
    """The rows of all four starts. Raises CalledProcessError if a command of ci-doctor fails."""
    folder = place.folder_of("caches", "vllm")
    shutil.rmtree(folder)
    folder.mkdir()
    ours = place.interpreter()
    other = _copied(ours.parent.parent, folder)
    cold = _start(folder, "cold", folder / "cache", ours)
    words = ["save", *_given(folder, ours)]
    _cache(folder, "save", words, folder / "cache")
    rows = {"cold": cold}
    for name, root, python in (
        ("same", folder / "cache", ours),
        ("folder", folder / "elsewhere", ours),
        ("environment", folder / "cache", other),
    ):
        shutil.rmtree(folder / "cache", ignore_errors=True)
        restored = _cache(folder, f"{name}-restore", ["restore", *_given(folder, python)], root)
        row = _start(folder, name, root, python)
        log = folder / name / "logs/vllm-1.log"
        given = ["verify", "--effect", "--log", str(log), *_given(folder, python)]
        effect = _cache(folder, f"{name}-verify", given, root)
        effects = {key: each["effect"] for key, each in effect["facts"].get("families", {}).items()}
        rows[name] = row | {
            "effects": effects or effect["facts"], "expected": EXPECTED[name], "restored": restored["summary"],
            "says": [each["summary"] for each in effect["findings"]], "summary": effect["summary"],
        }  # fmt: skip
    return {"rows": rows, "environment": place.VLLM}


def _copied(environment: Path, folder: Path) -> Path:
    """The environment at another path, by hard links; its interpreter."""
    copy = folder / "environment"
    subprocess.run(["cp", "-al", environment, copy], check=True)
    program = copy / "bin" / "vllm"
    text = program.read_text().replace(str(environment), str(copy))
    program.unlink()
    program.write_text(text)
    program.chmod(0o755)
    return copy / "bin" / "python"


def _given(folder: Path, python: Path) -> list[str]:
    words = ["--store", str(folder / "store"), "--python", str(python)]
    for name in _FAMILIES:
        words += ["--family", name]
    return words


def _environ(root: Path) -> dict[str, str]:
    return place.ENVIRON | {
        "VLLM_CACHE_ROOT": str(root), "TORCHINDUCTOR_CACHE_DIR": str(root / "inductor"), "TMPDIR": str(root.parent / "tmp"),
        "CI_DOCTOR_STATE_DIR": str(root.parent / "state"),
    }  # fmt: skip


def _cache(folder: Path, name: str, words: list[str], root: Path) -> dict[str, Any]:
    report = folder / name
    command = [sys.executable, "-m", "ci_doctor", "cache", *words, "--report-dir", str(report)]
    ended = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | _environ(root),
        check=True,
        capture_output=True,
        text=True,
    )
    (folder / f"{name}.txt").write_text(ended.stdout + ended.stderr)
    report_json: dict[str, Any] = json.loads((report / "report.json").read_text())
    return report_json


def _start(folder: Path, name: str, root: Path, python: Path) -> dict[str, Any]:
    """Start vLLM with torch.compile, and stop it when it is ready; the seconds that took."""
    scene = Scene(folder)
    compiled(scene)
    scene.program = [str(python.with_name("vllm"))]
    (folder / "tmp").mkdir(exist_ok=True)
    load, begun = place.load(), time.monotonic()
    service = f"vllm={subprocess.list2cmdline(scene.words())}"
    words = [
        sys.executable,
        "-m",
        "ci_doctor",
        "launch",
        "--report-dir",
        name,
        "--service",
        service,
    ]
    words += ["--ready", f"vllm={scene.ready}", "--", "true"]
    ended = subprocess.run(
        words,
        cwd=folder,
        env=os.environ | _environ(root),
        check=True,
        capture_output=True,
        text=True,
    )
    ready = _READY.search(ended.stderr)
    if ready is None:
        raise RuntimeError(f"{folder}/{name}: the server was never ready")
    seconds = 60 * int(ready["minutes"] or 0) + float(ready["seconds"])
    log = (folder / name / "logs/vllm-1.log").read_text(errors="replace")
    took = re.findall(r"torch\.compile (?:takes|took) ([\d.]+) s in total", log)
    return {
        "ready_s": seconds,
        "compile_s": took[-1:],
        "wall_s": round(time.monotonic() - begun),
        "load": [load, place.load()],
    }


if __name__ == "__main__":
    with place.machine():
        made = measured()
    place.keep_row("caches", "vllm", made)
    print(json.dumps(made, indent=1))
