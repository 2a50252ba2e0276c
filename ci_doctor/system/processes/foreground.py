# SPDX-License-Identifier: Apache-2.0
"""Reads the terminal: whether its keys reach our process group."""

import os


def in_foreground() -> bool:
    """Whether Ctrl-C on our terminal reaches our whole process group, and so its commands too."""
    try:
        # Any of the three: the terminal is the same, and each may be redirected.
        for number in (0, 1, 2):
            if os.isatty(number) and os.tcgetpgrp(number) == os.getpgrp():
                return True
    except OSError:  # the terminal has gone away
        return False
    return False
