# SPDX-License-Identifier: Apache-2.0
"""Acts on our own standard streams."""

import os


def open_closed_streams() -> None:
    """Open /dev/null at each of 0, 1 and 2 that is closed. Raises OSError if that fails.

    Otherwise the next file that we open gets that number (open(2)), and a child that inherits our
    streams would write into it.
    """
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            break
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
