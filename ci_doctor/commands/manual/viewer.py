# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: shows a manual page in man(1)."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def show_page(name: str, text: str) -> bool:
    """Show the page in man(1), and wait until it is closed; False if man(1) cannot show it."""
    program = shutil.which("man", path=os.environ.get("PATH"))
    if program is None:
        return False
    with tempfile.TemporaryDirectory(prefix="ci-doctor-man-") as folder:
        page = Path(folder, f"{name}.1")
        page.write_text(text, encoding="utf-8")
        # A name with a slash is a file to man-db, to mandoc's man and to BSD's.
        shown = subprocess.run([program, str(page)], check=False)
    return shown.returncode == 0
