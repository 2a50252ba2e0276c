# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: one run of the stub trigger in a target, with or without the shim."""

import os
from pathlib import Path

import msgspec

from ci_doctor.preload.interpreter import Answer, ask, clean_environment
from ci_doctor.preload.race_judgement import RaceRun
from ci_doctor.system.files.own_directory import own_directory

_STUBS = Path(__file__).parent / "stub"
# As long as the trial of a preload before its installation.
RUN_TIMEOUT_S = 180.0


def drive(
    python: Path,
    mode: str,
    rule: str,
    *arguments: str,
    shim: bool,
    timeout_s: float = RUN_TIMEOUT_S,
) -> RaceRun:
    """Run a driver in `python`: `failing`, or one of the modes of the race.

    `rule` is in `parse_rule` form. A run that does not end, or prints no result, is an error.
    """
    with own_directory("verify") as directory:
        trace = Path(directory) / "trace"
        # The job's modules may come from PYTHONPATH.
        environment = clean_environment(os.environ, keep=("PYTHONPATH",))
        environment["CI_DOCTOR_PRELOAD_TRACE"] = str(trace)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        if not shim:
            environment["CI_DOCTOR_PRELOAD"] = "0"
        if mode == "failing":
            words = (str(_STUBS / "failing_driver.py"), rule, *arguments)
        else:
            words = (str(_STUBS / "race_driver.py"), mode, rule, *arguments)
        answer = ask(python, *words, timeout_s=timeout_s, environment=environment)
        lines = trace.read_text("utf-8", "replace") if trace.exists() else ""
    return read_run(answer, lines, timeout_s)


def read_run(answer: Answer, trace: str, timeout_s: float) -> RaceRun:
    """The run that `answer` reports; `trace` is what the shim wrote."""
    if answer.exit_code is None:
        error = f"did not end within {timeout_s:.0f} s"
        return RaceRun(executed=True, error=error, traceback=answer.stderr, trace=trace)
    try:
        run = msgspec.json.decode(answer.last_line, type=RaceRun)
    except (msgspec.DecodeError, IndexError):
        error = f"ended with exit code {answer.exit_code}: {answer.last_error_line}"
        return RaceRun(executed=True, error=error, traceback=answer.stderr, trace=trace)
    return msgspec.structs.replace(run, trace=trace)
