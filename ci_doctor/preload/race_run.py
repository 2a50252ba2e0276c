# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: one run of the stub trigger in a target interpreter, with the shim or without it."""

import os
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.preload.interpreter import Answer, ask, clean_environment

_STUBS = Path(__file__).parent / "stub"
# As long as the trial of a preload before its installation.
RUN_TIMEOUT_S = 180.0


class RaceRun(Struct, frozen=True, kw_only=True):
    """How one run ended.

    `error` is one line, empty where all went well; `executed`: the trigger's code was reached; `loaded_before`: the
    module was there before the thread asked for it (`failing`: all of them, or the trigger, at every start); `replaced`: it put another object in its place in sys.modules;
    `trace`: what the shim told.
    """

    executed: bool = False
    error: str = ""
    traceback: str = ""
    loaded_before: bool = False
    replaced: bool = False
    trace: str = ""


def drive(
    python: Path,
    mode: str,
    rule: str,
    *arguments: str,
    shim: bool,
    timeout_s: float = RUN_TIMEOUT_S,
) -> RaceRun:
    """Run a driver in `python`: `failing`, or one of the modes of the race; `rule` is in `parse_rule` form. A run that does not end or says nothing is an error.

    PYTHONPATH stays, because the job's modules may come from there, and no bytecode is written.
    """
    with tempfile.TemporaryDirectory(prefix="ci-doctor-verify-") as directory:
        trace = Path(directory) / "trace"
        environment = clean_environment(os.environ, keep=("PYTHONPATH",))
        environment |= {"CI_DOCTOR_PRELOAD_TRACE": str(trace), "PYTHONDONTWRITEBYTECODE": "1"}
        if not shim:
            environment["CI_DOCTOR_PRELOAD"] = "0"
        program = ("failing_driver.py",) if mode == "failing" else ("race_driver.py", mode)
        words = (str(_STUBS / program[0]), *program[1:], rule, *arguments)
        answer = ask(python, *words, timeout_s=timeout_s, environment=environment)
        return read_run(
            answer, trace.read_text("utf-8", "replace") if trace.exists() else "", timeout_s
        )


def read_run(answer: Answer, trace: str, timeout_s: float) -> RaceRun:
    """The run that `answer` tells of."""
    if answer.exit_code is None:
        return RaceRun(
            executed=True,
            error=f"did not end within {timeout_s:.0f} s",
            traceback=answer.stderr,
            trace=trace,
        )
    try:
        # The last line: a module may print before it.
        run = msgspec.json.decode(answer.stdout.strip().splitlines()[-1], type=RaceRun)
    except (msgspec.DecodeError, IndexError):
        error = f"ended with exit code {answer.exit_code}: {answer.last_error_line}"
        return RaceRun(executed=True, error=error, traceback=answer.stderr, trace=trace)
    return msgspec.structs.replace(run, trace=trace)
