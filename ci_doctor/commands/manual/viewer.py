# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: shows a manual page in man(1)."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from ci_doctor.system.files.own_directory import own_directory


def show_page(name: str, text: str) -> bool:
    """Show the page in man(1), and wait until it is closed; False if man(1) cannot show it."""
    program = shutil.which("man", path=os.environ.get("PATH"))
    if program is None:
        return False
    with own_directory("man") as folder:
        page = Path(folder, f"{name}.1")
        page.write_text(text, encoding="utf-8")
        # Ctrl-C is a key of the pager.
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            # A name with a slash is a file to man-db, to mandoc's man and to BSD's.
            shown = subprocess.run([program, str(page)], check=False)
        finally:
            signal.signal(signal.SIGINT, previous)
    return shown.returncode == 0
