# SPDX-License-Identifier: Apache-2.0
"""MEBIBYTES [NEWLINES]: writes that much to stdout as fast as it goes, a single line unless NEWLINES is given, and ends."""

import os
import sys

piece = (b"x" * 127 + (b"\n" if len(sys.argv) > 2 else b"x")) * 8192
for _ in range(int(sys.argv[1])):
    left = memoryview(piece)
    while left:
        left = left[os.write(1, left) :]
os.write(1, b"the last words")
