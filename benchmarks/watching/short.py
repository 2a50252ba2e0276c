# SPDX-License-Identifier: Apache-2.0
"""A script that keeps processes and starts short ones at a rate; run as a program.

RATE SECONDS LIVING: on stdout is how many short ones there were a second, and the seconds from the first start. The short one is a program of
132 bytes without libraries (x86-64), because /bin/true takes three times as long to load as to run.
"""

import os
import struct
import sys
import tempfile
import time

_BASE = 0x400000
_CODE = bytes.fromhex("31ff b83c000000 0f05".replace(" ", ""))  # exit(0)


def program() -> bytes:
    """An executable that ends at once (elf(5)): its header, one segment, three instructions."""
    size = 64 + 56 + len(_CODE)
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, _BASE + 120, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000) + _CODE


def main(rate: float, seconds: float, living: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "short")  # noqa: PTH118 - few imports
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(program())
        os.chmod(path, 0o755)  # noqa: PTH101
        started = time.monotonic()
        kept = [
            os.posix_spawn("/bin/sleep", ["sleep", str(seconds + 60)], {}) for _ in range(living)
        ]
        begin = time.monotonic()
        count = 0
        while (age := time.monotonic() - begin) < seconds:
            while count < age * rate:
                os.waitpid(os.posix_spawn(path, ["short"], {}), 0)
                count += 1
            time.sleep(0.002)
        now = time.monotonic()
        print(f"{count / (now - begin):.0f} {now - started:.1f}", flush=True)
        for pid in kept:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
