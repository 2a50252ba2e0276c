# SPDX-License-Identifier: Apache-2.0
"""Acts on other interpreters: a signal writes the stacks of all threads to a file of the process.

The file is `$CI_DOCTOR_STACKS/PID`. A forked child writes to its parent's. Python 3.8.
"""

import os

_SIGNAL = 50  # as in watch/stalls.py


def _register() -> None:
    folder = os.environ.get("CI_DOCTOR_STACKS")
    if not folder:
        return
    import faulthandler

    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    faulthandler.register(_SIGNAL, os.open(folder + "/" + str(os.getpid()), flags, 0o600))


try:  # noqa: SIM105 - contextlib may not be loaded yet
    _register()
except Exception:  # noqa: BLE001 - what we add must not end a program
    pass
