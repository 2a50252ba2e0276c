# SPDX-License-Identifier: Apache-2.0
"""The page of a build in a real browser: its size, and the time to its first paint.

    python benchmarks/build_page.py             1, 50 and 1,000 jobs
    python benchmarks/build_page.py --record    also appends the figures to benchmarks/RESULTS.md

The aim for a thousand jobs is a first paint within a second and a page of at most 3 MB. Run it from
the root of the repository, with chromium or google-chrome on PATH and nothing else running.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import Browser
from startup import RESULTS

from ci_doctor.model.outcome import Report
from ci_doctor.render import html
from tests.support.browser import a_browser
from tests.support.build_pages import fifty_jobs, one_job, thousand_jobs

REPORTS = {"1": one_job, "50": fifty_jobs, "1,000": thousand_jobs}
RUNS = 7
# Resolves with the milliseconds from the navigation to the first paint of content.
FIRST_PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) => {
  const paint = list.getEntriesByName("first-contentful-paint")[0];
  if (paint) resolve(paint.startTime);
}).observe({type: "paint", buffered: true}))"""


class Figures(NamedTuple):
    jobs: str
    megabytes: float
    render_ms: float
    paint_ms: float
    worst_paint_ms: float


def measure(browser: Browser, jobs: str, report: Report, file: Path) -> Figures:
    began = time.process_time()
    text = html.render(report)
    rendered = 1000 * (time.process_time() - began)
    file.write_text(text, encoding="utf-8")
    paints = [first_paint(browser, file) for _ in range(RUNS)]
    size = len(text.encode()) / 1e6
    return Figures(jobs, size, rendered, statistics.median(paints), max(paints))


def first_paint(browser: Browser, file: Path) -> float:
    page = browser.new_page(viewport={"width": 1600, "height": 900})
    page.goto(file.as_uri())
    paint: float = page.evaluate(FIRST_PAINT)
    page.close()
    return paint


def table(rows: list[Figures]) -> str:
    lines = [
        "| jobs | size, MB | made in, ms of CPU | first paint, ms, median | worst |",
        "|--:|--:|--:|--:|--:|",
    ]
    lines.extend(map(line, rows))
    return "\n".join(lines)


def line(row: Figures) -> str:
    times = f"{row.render_ms:.0f} | {row.paint_ms:.0f} | {row.worst_paint_ms:.0f}"
    return f"| {row.jobs} | {row.megabytes:.2f} | {times} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    html.render(one_job())  # templates are compiled once in a process
    with tempfile.TemporaryDirectory() as folder, a_browser() as browser:
        file = Path(folder) / "report.html"
        rows = [measure(browser, jobs, make(), file) for jobs, make in REPORTS.items()]
        version = browser.version
    shown = table(rows)
    print(shown)
    if options.record:
        machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
        title = f"## {datetime.now(UTC):%Y-%m-%d}: the page of a build, {RUNS} loads, 1600 px"
        with RESULTS.open("a", encoding="utf-8") as results:
            results.write(f"\n{title}\n\n{machine}, Chromium {version}\n\n{shown}\n")
    largest = rows[-1]
    return 0 if largest.megabytes <= 3 and largest.paint_ms <= 1000 else 1


if __name__ == "__main__":
    sys.exit(main())
