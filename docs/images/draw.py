# SPDX-License-Identifier: Apache-2.0
"""Draws flaky.svg from a real run: python docs/images/draw.py (with .venv's Python, from anywhere)."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ci_doctor.render import json, text

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "tiny-llm"


def main() -> None:
    """Run the flaky story of the example, and draw its report as a terminal would show it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        command = ["ci-doctor", "correctness", "--retries", "3", "--config", "flaky.toml", "--report-dir", folder]
        subprocess.run(command, cwd=EXAMPLE, env={**os.environ, "PATH": path}, check=True, capture_output=True)
        report = json.parse((Path(folder) / "report.json").read_text())
    shown = text.render(report, width=84, colour=True).split("\nAttempts\n")[0].replace(folder, "ci-doctor-report")
    console = Console(record=True, width=88, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    console.print(Text.from_ansi(f"$ ci-doctor correctness --retries 3\n{shown}"))
    drawn = console.export_svg(title="ci-doctor", unique_id="ci-doctor")
    # No fonts from elsewhere: the reader's own monospace will do.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace(
        "Fira Code", "ui-monospace, DejaVu Sans Mono"
    )
    (HERE / "flaky.svg").write_text("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
