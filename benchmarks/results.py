# SPDX-License-Identifier: Apache-2.0
"""Acts on RESULTS.md: appends what a benchmark has measured, with the day and the machine."""

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

_RESULTS = Path(__file__).with_name("RESULTS.md")


def machine() -> str:
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"


def record(title: str, lines: Iterable[str], about: str = "") -> None:
    """Append a section of `lines`; `about` goes on after the machine."""
    text = [f"## {datetime.now(UTC):%Y-%m-%d}: {title}", "", f"{machine()}{about}", "", *lines]
    with _RESULTS.open("a", encoding="utf-8") as file:
        file.write("\n" + "\n".join(text).rstrip() + "\n")
