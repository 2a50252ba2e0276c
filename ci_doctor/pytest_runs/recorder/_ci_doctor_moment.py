# SPDX-License-Identifier: Apache-2.0
"""Acts on other interpreters: when a test begins, and how slowly it runs.

Load is imitated by stopping the whole process group for most of each period: the clock goes on, and
the threads and processes of the test do not. Unlike burners it needs no CPU, and disturbs nobody.
"""

import os
import random
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# It stands outside the group that it stops. It ends with its stdin, whatever happens to the test.
_PULSES = """
import os, select, signal, sys
group, run_ms, stop_ms = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
try:
    os.nice(-15)
except OSError:
    pass
end = select.poll()
end.register(0, select.POLLIN | select.POLLHUP)
print("ready", flush=True)
try:
    while not end.poll(run_ms):
        os.killpg(group, signal.SIGSTOP)
        is_over = bool(end.poll(stop_ms))
        os.killpg(group, signal.SIGCONT)
        if is_over:
            break
except ProcessLookupError:
    pass
"""


class Pulses:
    """Stops the process group of this process again and again, until `end`."""

    def __init__(self, run_ms: float, stop_ms: float) -> None:
        words = [sys.executable, "-I", "-S", "-c", _PULSES]
        words += [str(os.getpgrp()), str(run_ms), str(stop_ms)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def end(self) -> None:
        """Let the group run freely again."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def seed(number: int) -> None:
    """Seed the generators that are loaded."""
    random.seed(number)
    numpy: "Any" = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number % 2**32)
    torch: "Any" = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        torch.manual_seed(number)


def wait_for_boundary(lead_s: float, *, midnight: bool) -> None:
    """Return `lead_s` seconds before the next second begins, or before the next local midnight.

    Midnight is brought here by the time zone: POSIX lets TZ name any offset up to a day.
    """
    begin = time.time()
    boundary = int(begin + lead_s) + 1.0
    if boundary - lead_s - begin < 0.005:
        boundary += 1.0
    if midnight:
        of_day = int(boundary) % 86400
        left = 86400 - of_day  # local time is UTC and this
        if left > 43200:
            left -= 86400
        # In TZ a positive offset lies west of Greenwich.
        sign, size = ("-", left) if left >= 0 else ("", -left)
        text = "%s%02d:%02d:%02d" % (sign, size // 3600, size // 60 % 60, size % 60)
        os.environ["TZ"] = "MID" + text
        time.tzset()
    time.sleep(max(0.0, boundary - lead_s - 0.002 - time.time()))
    while time.time() < boundary - lead_s:
        pass
