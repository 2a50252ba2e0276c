# SPDX-License-Identifier: Apache-2.0
"""NOTE SECONDS [--worker] …: a server that never binds: logs, notes the monotonic time (ns) in NOTE, and ends with 3.

With --worker it leaves a process behind that ends at the first SIGTERM or SIGINT.
"""

import os
import sys
import time

note = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
if "--worker" in sys.argv and not os.fork():
    nowhere = os.open(
        os.devnull, os.O_WRONLY
    )  # an open pipe would hold up those who wait for its end
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.execvp("sleep", ["sleep", "60"])
for step in range(30):
    os.write(1, b"loading shard %d\n" % step)
time.sleep(float(sys.argv[2]))
os.write(
    2,
    b'Traceback (most recent call last):\n  File "engine.py", line 7, in load\nImportError: libcudart.so.12\n',
)
os.write(note, b"%d" % time.monotonic_ns())
os._exit(3)
