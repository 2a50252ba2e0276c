# SPDX-License-Identifier: Apache-2.0
"""Acts on our own standard streams."""

import os


def open_closed_streams() -> None:
    """Where 0, 1 or 2 is closed, open /dev/null there; raises OSError where it cannot be opened.

    Otherwise the next file of ours gets that number (open(2)), and a child that inherits our streams would write into it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
