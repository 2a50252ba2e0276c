# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts each interpreter of the job once, as the job would.

Without bytecode, because a check changes nothing.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.presence import absence
from ci_doctor.checks.python.python_state import PythonState, read_state
from ci_doctor.machine.interpreters import TargetInterpreter, clean_environment

PROBE = Path(__file__).parent / "stub" / "interpreter_probe.py"

# So many characters of what an interpreter writes are kept.
_LONGEST = 2000


class InterpreterAttempt(Struct, frozen=True, kw_only=True):
    """One start of `target`.

    `state` is None if it failed; then `failure` is the last line of its output, and `output` what it
    wrote to stderr. `needed_without` names the variables without which it starts.
    `starts_without_site`: it starts if no `.pth` file and no sitecustomize is run.
    """

    target: TargetInterpreter
    state: PythonState | None
    failure: str = ""
    output: str = ""
    needed_without: tuple[str, ...] = ()
    starts_without_site: bool = False

    @property
    def is_too_old(self) -> bool:
        """Whether it starts, and cannot read a program for Python 3."""
        return self.state is None and PROBE.name in self.output and "SyntaxError" in self.output


def read_starts(context: CheckContext) -> tuple[InterpreterAttempt, ...]:
    """A start of each interpreter, in the order of the targets."""
    return tuple(_start(context, target) for target in context.targets)


def _start(context: CheckContext, target: TargetInterpreter) -> InterpreterAttempt:
    if not os.access(target.python, os.X_OK):
        return InterpreterAttempt(target=target, state=None, failure=_no_program(target.python))
    attempt = _attempt(context, target, context.environ)
    if attempt.state is not None:
        return attempt
    clean = _attempt(context, target, clean_environment(context.environ))
    if clean.state is None:
        bare = _attempt(context, target, context.environ, "-S")
        return replace(attempt, starts_without_site=bare.state is not None)
    return InterpreterAttempt(
        target=target,
        state=None,
        failure=attempt.failure,
        output=attempt.output,
        needed_without=_culprits(context, target),
    )


def _culprits(context: CheckContext, target: TargetInterpreter) -> tuple[str, ...]:
    """The variables that keep it from starting: one alone, if one is enough."""
    names = sorted(name for name in context.environ if name.startswith("PYTHON"))
    for name in names:
        others = {key: value for key, value in context.environ.items() if key != name}
        if _attempt(context, target, others).state is not None:
            return (name,)
    return tuple(names)


def _attempt(
    context: CheckContext, target: TargetInterpreter, environ: Mapping[str, str], *options: str
) -> InterpreterAttempt:
    quiet = {**environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = context.run([str(target.python), *options, str(PROBE)], environ=quiet)
    except OSError as error:
        return InterpreterAttempt(target=target, state=None, failure=error.strerror or str(error))
    state = None
    if run.exit_code == 0:
        state = read_state(run.stdout)
    return InterpreterAttempt(
        target=target,
        state=state,
        failure=run.last_words[:_LONGEST],
        output=run.stderr.strip()[-_LONGEST:],
    )


def _no_program(python: Path) -> str:
    """Why `python` cannot be run."""
    reason = absence(python)
    if reason is None:
        return "it is not executable"
    real = os.path.realpath(python)
    if real != str(python):
        return f"it links to {real}, which {reason}"
    return f"it {reason}"
