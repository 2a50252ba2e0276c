# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters, as `python -c TEXT MODULE ATTRIBUTE`: lets two threads import MODULE.

The recorder holds the background thread's import until the main thread requests the same module.
The last line of stdout is a JSON object with what happened; what the module prints goes to stderr.
Until the race is over this imports only built-in modules. No other thread could race for a module
that is loaded already, so anything else that it imported could not be probed.
"""

import sys

module, attribute = sys.argv[1], sys.argv[2]
answer = {
    "loaded_before": module in sys.modules,
    "failed": "",
    "error": "",
    "stale": False,
    "absent": "",
}

import _thread  # noqa: E402
import os  # noqa: E402
import time  # noqa: E402

del sys.argv[1:]
stdout = os.dup(1)
os.dup2(2, 1)
ended = _thread.allocate_lock()
received = {}  # type: ignore[var-annotated]


def describe(error: BaseException) -> str:
    try:
        return "%s: %s" % (type(error).__name__, " ".join(str(error).split()))
    except Exception:  # noqa: BLE001 - the module's own error class
        return type(error).__name__


def import_in_background() -> None:
    try:
        __import__(module)
    except BaseException as error:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
        answer["failed"] = describe(error)
    finally:
        ended.release()


def race() -> None:
    ended.acquire()
    _thread.start_new_thread(import_in_background, ())
    # The module is in sys.modules from the moment at which its code starts to run.
    while module not in sys.modules and ended.locked():
        time.sleep(0.0005)
    try:
        if attribute:
            exec("from %s import %s as it" % (module, attribute), received)
        else:
            received["it"] = __import__(module, fromlist=("__name__",))
    except BaseException as error:  # noqa: BLE001
        answer["error"] = describe(error)
    ended.acquire()


def compare() -> None:
    """Whether the main thread received the object that stays."""
    present = sys.modules.get(module)
    if not attribute:
        answer["stale"] = "it" in received and received["it"] is not present
        return
    try:
        # Twice: an attribute that is made anew at each look says nothing.
        first, second = getattr(present, attribute), getattr(present, attribute)
        answer["stale"] = "it" in received and first is second and received["it"] is not first
    except BaseException:  # noqa: BLE001
        try:
            exec("from %s import %s as late" % (module, attribute), {})
        except BaseException as error:  # noqa: BLE001
            answer["absent"] = describe(error)


if not answer["loaded_before"]:
    race()
if not answer["failed"]:
    compare()
sys.stderr.flush()

import atexit  # noqa: E402
import json  # noqa: E402

os.write(stdout, b"\n" + json.dumps(answer).encode() + b"\n")
atexit._run_exitfuncs()  # the recorder's among them
# Threads that the module has started must not delay the answer.
os._exit(0)
