# SPDX-License-Identifier: Apache-2.0
"""Prints the name of each signal that arrives, and ends with 7 at SIGUSR2."""

import os
import signal
import sys

NOTED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer)
for number in NOTED:
    signal.signal(number, lambda *_: None)
print("ready", flush=True)
while True:
    arrived = signal.Signals(os.read(reader, 1)[0])
    print(arrived.name, flush=True)
    if arrived is signal.SIGUSR2:
        sys.exit(7)
