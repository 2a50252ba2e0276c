# SPDX-License-Identifier: Apache-2.0
"""Draws flaky.svg, launch.svg, import-race.svg, doctor.svg and build.svg from real runs: python docs/images/draw.py (with .venv's Python, from anywhere)."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ci_doctor.render import json, text

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
FOLDERS = {
    "flaky": "tiny-llm",
    "launch": "tiny-llm",
    "import-race": "import-race",
    "doctor": "doctor",
    "build": "build",
}
# The agent of the story has a proxy for the outside. None removes a variable.
VARIABLES: dict[str, dict[str, str | None]] = {
    "doctor": {"http_proxy": "http://proxy.internal:3128", "no_proxy": None, "NO_PROXY": None}
}


STORIES = {
    "flaky": ("correctness", "--retries", "3", "--config", "flaky.toml"),
    "launch": (
        *("launch", "--service", "kv=python server.py --port {port}"),
        *("--service", "vllm=python server.py --port 80800", "--ready", "vllm=log:tiny-llm on"),
        *("--needs", "vllm=kv", "--", "pytest", "tests/serving"),
    ),
    "import-race": ("import-race", "--confirm", "--", "python", "-m", "serving.cli"),
    "doctor": ("doctor", "own", "network"),
    "build": ("build", "merge", "reports", "--expect", "lint"),
}
TYPED = {
    "flaky": "ci-doctor correctness --retries 3",
    "launch": "ci-doctor launch --service kv='…' --service vllm='…' -- pytest tests/serving",
    "import-race": "ci-doctor import-race --confirm -- python -m serving.cli",
    "doctor": "ci-doctor doctor own network",
    "build": "ci-doctor build merge reports --expect lint",
}


def main() -> None:
    """Run each story on the example, and draw its report as a terminal would show it."""
    for name, words in STORIES.items():
        shown = report(words, EXAMPLES / FOLDERS[name], VARIABLES.get(name, {}))
        (HERE / f"{name}.svg").write_text(draw(f"$ {TYPED[name]}\n{shown}"), encoding="utf-8")


def report(
    words: Sequence[str], example: Path, variables: Mapping[str, str | None] | None = None
) -> str:
    """What a run of ci-doctor in the folder `example` says, up to its verdict's evidence."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        # `build merge` is two words; in the other stories an option may follow the first one.
        name = 2 if words[0] == "build" else 1
        command = ["ci-doctor", *words[:name], "--report-dir", folder, *words[name:]]
        merged = {**os.environ, "PATH": path, **(variables or {})}
        environ = {name: value for name, value in merged.items() if value is not None}
        subprocess.run(command, cwd=example, env=environ, check=False, capture_output=True)
        found = json.parse((Path(folder) / "report.json").read_text())
    shown = re.split(
        r"\n(?:\x1b\[[0-9;]*m)*(?:Attempts|reproduce:)", text.render(found, width=84, colour=True)
    )[0]
    shown = shown.replace(f"{sys.prefix}/", ".venv/").replace(f"{example}/", "")
    # Where Python lies is this machine's matter.
    shown = shown.replace(f"{sys.base_prefix}/", "/usr/")
    return re.sub(rf"(\.\./)*{folder.lstrip('/')}|{folder}", "ci-doctor-report", shown)


def draw(shown: str) -> str:
    """An SVG of a terminal."""
    console = Console(record=True, width=88, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    console.print(Text.from_ansi(shown))
    drawn = console.export_svg(title="ci-doctor", unique_id="ci-doctor")
    # No fonts from elsewhere: the reader's own monospace will do.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace(
        "Fira Code", "ui-monospace, DejaVu Sans Mono"
    )
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


if __name__ == "__main__":
    main()
