# SPDX-License-Identifier: Apache-2.0
"""Mounts a file system that never answers, and runs a command beside it: DIRECTORY USER COMMAND…

Acts on mounts; it needs a mount namespace of its own. It is what a network file system looks like whose server is gone:
the kernel asks a FUSE server for each directory, and this one reads no question. Users other than USER (a number) are refused at once, root too (Linux fuse.rst).
"""

import ctypes
import os
import subprocess
import sys

_NOSUID_NODEV = 6


def main() -> int:
    """Mount, run the command, and end with its exit status."""
    place, user, *command = sys.argv[1:]
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id={user},group_id=0"
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.mount(
        b"server:/export", place.encode(), b"fuse.dead", _NOSUID_NODEV, options.encode()
    )
    if failed:
        sys.stderr.write(f"mount: {os.strerror(ctypes.get_errno())}\n")
        return 1
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
