# SPDX-License-Identifier: Apache-2.0
"""FILE SECONDS: on SIGINT or SIGTERM works on for SECONDS, then ends with 5; writes a line to FILE for all that happens."""

import signal
import sys
import threading

asked = threading.Event()


def say(text: str) -> None:
    with open(sys.argv[1], "a") as file:  # noqa: PTH123
        file.write(text + "\n")


def wind_down(number: int, _frame: object) -> None:
    say(signal.Signals(number).name)
    asked.set()


for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, wind_down)
say("ready")
asked.wait()
threading.Event().wait(float(sys.argv[2]))
say("done")
sys.exit(5)
