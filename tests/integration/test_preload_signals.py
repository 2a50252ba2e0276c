# SPDX-License-Identifier: Apache-2.0
"""What a preload raises never gets out of it; what a signal raises does. Real signals, in every interpreter there is."""

import ast

import pytest

from tests.integration.preload_venvs import Venv, each_interpreter, venv_of

pytestmark = pytest.mark.integration

# Module texts; `interrupt` sends SIGINT to this process, `from_thread` does so while the main thread does something.
INTERRUPTED = {
    "at_a_call": "import sent; sent.interrupt()",
    "in_a_loop": "import sent\nsent.from_thread()\nwhile True: pass",
    "blocked": "import os, sent\nsent.from_thread()\nos.read(os.pipe()[0], 1)",
    "waiting_for_a_lock": "import threading, sent\nsent.from_thread()\nthreading.Event().wait(60)",
    "raised_again": "import sent\ntry: sent.interrupt()\nexcept KeyboardInterrupt: raise",
    "raised_by_name": "import sent\ntry: sent.interrupt()\nexcept KeyboardInterrupt as error: raise error",
    "through_finally": "import sent\nwith open(__file__):\n try: sent.interrupt()\n finally: str()",
    "turned_into_an_exit": "import sent, sys\ntry: sent.interrupt()\nexcept KeyboardInterrupt: sys.exit(130)",
    "turned_into_another_error": "import sent\ntry: sent.interrupt()\nexcept KeyboardInterrupt: raise OSError from None",
    "in_a_nested_import": "import interrupted_at_a_call",
    "in_asyncio": "import asyncio, sent\nasync def main():\n sent.interrupt()\n await asyncio.sleep(60)\nasyncio.run(main())",
    # Each takes itself or its successor into SIGTERM and is called by it.
    "function_handler": "import sent; sent.terminate(sent.function)",
    "lambda_handler": "import sent, sys; sent.terminate(lambda *_: sys.exit(3))",
    "method_handler": "import sent; sent.terminate(sent.Handler().method)",
    "partial_handler": "import functools, sent; sent.terminate(functools.partial(sent.given, 1))",
    "callable_handler": "import sent; sent.terminate(sent.Handler())",
    "wrapped_handler": "import sent; sent.terminate(sent.wrapped)",
    "raising_exception": "import sent; sent.terminate(sent.timed_out)",
    "chained_exception": "import sent\ntry: sent.terminate(sent.timed_out)\nexcept TimeoutError: raise ImportError('x')",
    # Installed by the program before the preload.
    "handler_that_takes_itself_off": "import os, signal; os.kill(os.getpid(), signal.SIGUSR1); [str() for _ in range(9)]",
}
RAISED = {
    "interrupt": "raise KeyboardInterrupt",
    "interrupt_in_a_function": "def main():\n raise KeyboardInterrupt('no')\nmain()",
    "interrupt_from_a_nested_module": "import raised_interrupt",
    "interrupt_after_another": "try: raise KeyboardInterrupt\nexcept KeyboardInterrupt: raise KeyboardInterrupt",
    "exit": "import sys; sys.exit(3)",
    "quit": "raise SystemExit",
    "generator_exit": "raise GeneratorExit",
    "own_base_exception": "class Ended(BaseException): pass\nraise Ended",
    "syntax": "(",
    "recursion": "def f(): f()\nf()",
    # The enumerations' own code must not be taken for that of a handler, though SIG_DFL is of one.
    "enumeration": "import enum\nclass Colour(enum.Enum):\n RED = 1\nColour(2)",
    "handler_not_called": "import signal, sent, sys\nsignal.signal(signal.SIGTERM, sent.function); sys.exit(4)",
}
SENT = """
import functools, os, signal, sys, threading

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(9): str()

def from_thread():
    threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()

def terminate(handler):
    signal.signal(signal.SIGTERM, handler)
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(9): str()

def function(number, frame):
    del number, frame
    sys.exit(3)

def given(value, number, frame): raise SystemExit(value)

class Handler:
    def method(self, number, frame): raise SystemExit(3)
    def __call__(self, number, frame): raise SystemExit(3)

@functools.wraps(given)
def wrapped(*arguments): function(*arguments)

def timed_out(number, frame): raise TimeoutError
"""
PROGRAM = """
import signal, sys

def take_off(number, frame):
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    raise SystemExit(5)

signal.signal(signal.SIGUSR1, take_off)
seen = {}
for name in sys.argv[1:]:
    try:
        __import__("trigger_" + name)
    except BaseException as error:
        seen[name] = type(error).__name__
        # Interrupted once, the program may ask again: the rule is still to be done.
        seen[name] += " " + str("trigger_" + name in sys.modules["_ci_doctor_preload"].RULES)
    else:
        seen[name] = "imported"
print(seen)
"""


@pytest.fixture(scope="module", params=each_interpreter())
def venv(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    made = venv_of(request.param, tmp_path_factory.mktemp("venv"))
    modules = {f"interrupted_{name}": text for name, text in INTERRUPTED.items()}
    modules |= {f"raised_{name}": text for name, text in RAISED.items()}
    made.put({f"{name}.py": text + "\n" for name, text in modules.items()} | {"sent.py": SENT})
    made.put({f"trigger_{name}.py": "" for name in modules})
    made.put_shim(*(f"trigger_{name}={name}" for name in modules))
    return made


def imported(venv: Venv, *names: str) -> dict[str, str]:
    ran = venv.run("-c", PROGRAM, *names)
    assert (ran.returncode, ran.stderr) == (0, "")
    seen = ast.literal_eval(ran.stdout)
    assert isinstance(seen, dict)
    return seen


def test_what_a_preload_raises_never_gets_out(venv: Venv) -> None:
    names = [f"raised_{name}" for name in RAISED]
    assert imported(venv, *names) == dict.fromkeys(names, "imported")


def test_what_a_signal_raises_passes_and_leaves_the_rule_to_be_done(venv: Venv) -> None:
    seen = imported(venv, *(f"interrupted_{name}" for name in INTERRUPTED))
    other = {
        "turned_into_an_exit": "SystemExit",
        "turned_into_another_error": "OSError",
        "raising_exception": "TimeoutError",
        "chained_exception": "ImportError",
        **dict.fromkeys((name for name in INTERRUPTED if "handler" in name), "SystemExit"),
    }
    wanted = {name: other.get(name, "KeyboardInterrupt") + " True" for name in INTERRUPTED}
    assert {name.partition("_")[2]: how for name, how in seen.items()} == wanted


def test_interrupt_that_the_program_is_handling_already_does_not_let_a_failure_pass(
    venv: Venv,
) -> None:
    ran = venv.run(
        "-c",
        "import sent\ntry: sent.interrupt()\nexcept KeyboardInterrupt:\n    import trigger_raised_exit, trigger_raised_syntax\nprint('went on')",
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "went on\n", "")


def test_interrupt_in_a_real_import_passes_instead_of_the_failure_that_would_be_retold(
    venv: Venv,
) -> None:
    venv.put(
        {
            "once.py": "import builtins, sent\n"
            "if hasattr(builtins, 'failed'): sent.interrupt()\nbuiltins.failed = True\nraise RuntimeError\n",
            "asks.py": "",
        }
    )
    script = (
        "import sys; rules = sys.modules['_ci_doctor_preload'].RULES; rules['asks'] = (('once', ()),); import asks\n"
        "try: import once\nexcept BaseException as error: print(type(error).__name__)"
    )
    ran = venv.run("-c", script)
    assert (ran.stdout.strip(), ran.stderr) == ("KeyboardInterrupt", "")
