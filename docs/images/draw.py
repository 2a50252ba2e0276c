# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of README and docs from real runs: python docs/images/draw.py [NAME…] (with .venv's Python, from anywhere).

annotation.png is what the Buildkite plugin puts on a build's page: its hooks run in the tests' stand-in of the agent. The text
becomes HTML by Buildkite's CommonMark and list of tags (tests/support/annotated_page.py), and a real browser shows it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from ci_doctor.model.outcome import Report
from ci_doctor.render import json, text

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
FOLDERS = {
    "launch": "tiny-llm",
    "import-race": "import-race",
    "doctor": "doctor",
    "build": "build",
}
# The agent of the story of `doctor` has a proxy for the outside. None removes a variable.
VARIABLES: dict[str, dict[str, str | None]] = {
    "doctor": {"http_proxy": "http://proxy.internal:3128", "no_proxy": None, "NO_PROXY": None},
}


STORIES = {
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
    "vllm": "ci-doctor correctness --config prefix.toml",
    "launch": "ci-doctor launch --service kv='…' --service vllm='…' -- pytest tests/serving",
    "import-race": "ci-doctor import-race --confirm -- python -m serving.cli",
    "doctor": "ci-doctor doctor own network",
    "build": "ci-doctor build merge reports --expect lint",
}


# What `sh examples/vllm/run.sh` leaves: it installs vLLM.
RECORDED = {"vllm": EXAMPLES / "vllm/ci-doctor-report/prefix/report.json"}

# Of a terminal: with more of them, nobody could read the picture on a telephone, 400 pixels wide.
_CELLS = 54
# As the page of a build: its colours of an error, its type sizes, its code.
STYLE = """
body { margin: 0; padding: 12px; background: #fff; font: 14px/1.5 Inter, "Helvetica Neue", Arial, sans-serif; color: #2b2e33; }
.annotation { border: 1px solid #e1e3e8; border-left: 4px solid #d0342c; border-radius: 6px; padding: 12px 18px; }
a { color: #0b6bcb; text-decoration: none; }
p, ul { margin: 0 0 10px; } ul { padding-left: 20px; }
code { font: 12px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; background: #f1f2f4; border-radius: 3px; padding: 1px 4px; }
pre { background: #f7f8fa; border: 1px solid #e6e8ec; border-radius: 4px; padding: 9px 12px; margin: 0 0 10px; overflow: hidden; }
pre code { background: none; padding: 0; }
"""
ANNOTATED_STEP = "bash ci/serving.sh"


def main() -> None:
    """Run each story on the example, and draw its report as a terminal or a build's page would show it."""
    wanted = sys.argv[1:] or ["annotation", *STORIES, *RECORDED]
    if "annotation" in wanted:
        draw_annotation(annotation())
    for name, words in STORIES.items():
        if name not in wanted:
            continue
        shown = report(words, EXAMPLES / FOLDERS[name], VARIABLES.get(name, {}))
        (HERE / f"{name}.svg").write_text(draw(f"$ {TYPED[name]}\n{shown}"), encoding="utf-8")
    for name, path in RECORDED.items():
        if name in wanted:
            shown = head_of(json.parse(path.read_text()))
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
    shown = head_of(found).replace(f"{sys.prefix}/", ".venv/").replace(f"{example}/", "")
    # Where Python lies is this machine's matter.
    shown = shown.replace(f"{sys.base_prefix}/", "/usr/")
    return re.sub(rf"(\.\./)*{folder.lstrip('/')}|{folder}", "ci-doctor-report", shown)


def head_of(found: Report) -> str:
    """What a terminal shows of a report without how it was done, and without what other programs of this machine did."""
    tables = tuple(table for table in found.tables if table.title != "Shared files")
    shown = text.render(replace(found, tables=tables), width=_CELLS, colour=True, has_edge=True)
    return re.split(r"\n(?:\x1b\[[0-9;]*m)*(?:Attempts|reproduce:|Control)", shown)[0]


def draw(shown: str) -> str:
    """An SVG of a terminal."""
    console = Console(record=True, width=_CELLS + 4, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    console.print(Text.from_ansi(shown))
    drawn = console.export_svg(title="ci-doctor", unique_id="ci-doctor")
    # No fonts from elsewhere: the reader's own monospace will do.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace(
        "Fira Code", "ui-monospace, DejaVu Sans Mono"
    )
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def annotation() -> str:
    """The Markdown that the plugin hands to the agent for a step whose server died: its logs are those of examples/diagnose."""
    # The tests' stand-in of the agent is no part of an installation.
    sys.path.insert(0, str(HERE.parents[1]))
    from tests.support import stand_in_agent
    from tests.support.plugin_workplace import Workplace

    with tempfile.TemporaryDirectory() as folder:
        workplace = Workplace(Path(folder))
        workplace.real_ci_doctor()
        for program in ("bash", "cp", "tee"):
            workplace.link(program)
        for name in ("ci", "logs"):
            (workplace.checkout / name).mkdir()
        shutil.copytree(EXAMPLES / "diagnose", Path(folder) / "ran")
        (workplace.checkout / "ci/serving.sh").write_text(
            "cp ../ran/server.log logs/\ntee logs/client.log <../ran/client.log\nexit 2\n"
        )
        options = {"diagnose": "logs/**/*.log", "exit-codes": True, "pythons": sys.executable}
        workplace.job(ANNOTATED_STEP, options, BUILDKITE_LABEL="serving").run()
        ((_, body),) = stand_in_agent.annotations(workplace.agent_log).values()
    return body


def draw_annotation(body: str) -> None:
    """annotation.png: the annotation as a browser shows it, at twice its size in pixels."""
    from tests.support.annotated_page import html_of
    from tests.support.browser import a_browser

    with a_browser() as browser:
        page = browser.new_page(viewport={"width": 480, "height": 300}, device_scale_factor=2)
        page.set_content(
            f"<style>{STYLE}</style><body><div class=annotation>{html_of(body)}</div></body>"
        )
        page.screenshot(path=HERE / "annotation.png", full_page=True)


if __name__ == "__main__":
    main()
