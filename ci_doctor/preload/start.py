# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts a target, to compare a start with the shim with one without it."""

import os
from pathlib import Path

from ci_doctor.errors import InfraError, PreparationError
from ci_doctor.model.finding import Evidence
from ci_doctor.preload import rules
from ci_doctor.preload.interpreter import Answer, ask, clean_environment
from ci_doctor.preload.shim_files import FINDER, PATH_FILE, RUNTIME
from ci_doctor.preload.target import Target

START_TIMEOUT_S = 60.0

# How many finders of ours are armed.
_START = (
    f"import sys; print(sum(f is sys.modules.get({Path(FINDER).stem!r}) for f in sys.meta_path))"
)
_LOAD = f"import {Path(FINDER).stem}, {Path(RUNTIME).stem}"


def start(target: Target, program: str = _START) -> Answer:
    """An ordinary start of `target`; its stdout is the number of our finders that it has armed.

    Raises InfraError if it does not end.
    """
    environment = clean_environment(os.environ)
    # -B: what is imported at the start must not leave bytecode behind.
    options = ("-I", "-B", "-c", program)
    answer = ask(target.python, *options, timeout_s=START_TIMEOUT_S, environment=environment)
    if answer.exit_code is None:
        raise InfraError(
            f"{target.python} did not start within {START_TIMEOUT_S:.0f} s",
            hint="look at its `.pth` files",
        )
    return answer


def loads(target: Target) -> bool:
    """Whether `target` can load the modules of its shim: their bytecode may be damaged."""
    answer = start(target, _LOAD)
    return answer.exit_code == 0 and PATH_FILE not in answer.stderr


def prove_start(target: Target, clean: Answer) -> None:
    """Compare a start with the shim with `clean`, a start from before the installation.

    Nothing new may be on stderr, and the shim must be armed exactly once. Raises PreparationError,
    with the finding.
    """
    answer = start(target)
    armed = answer.stdout.strip().splitlines()[-1:]
    # An interpreter that complains of other things at every start may go on doing so.
    quiet = PATH_FILE not in answer.stderr if clean.stderr else not answer.stderr
    if answer.exit_code == 0 and armed == ["1"] and quiet:
        return
    summary = f"{target.python} does not start cleanly with the shim, which was removed again"
    excerpt = answer.stderr.strip() or f"exit code {answer.exit_code}, armed finders: {armed}"
    remedy = f"look at the other `.pth` files and at sitecustomize in {target.site_dir}"
    evidence = (Evidence(excerpt=excerpt),)
    finding = rules.BREAKS_START.finding(summary, evidence=evidence, remedy=remedy)
    raise PreparationError(summary, hint=remedy, findings=(finding,))
