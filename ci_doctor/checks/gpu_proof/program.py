# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs one measurement of `programs` in the job's interpreter, with its torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext

T = TypeVar("T")

PROGRAMS: Final = Path(__file__).parent / "programs"
# Nothing is left behind in the job's interpreter.
_VARIABLES: Final = {"PYTHONDONTWRITEBYTECODE": "1"}


class TorchAnswer(Struct, frozen=True, kw_only=True):
    """What programs/launch.py prints; its docstring says which `stage` can fail.

    The further stage `process` is ours: the program ended, or was ended, without an answer.
    """

    torch: str | None = None
    cuda: str | None = None
    values: dict[str, Any] | None = None
    failed: str | None = None
    stage: str | None = None


def ask_torch(
    context: CheckContext,
    python: Path,
    name: str,
    request: Mapping[str, Any],
    *,
    limit_s: float,
    environ: Mapping[str, str] | None = None,
) -> TorchAnswer:
    """The answer of the measurement `name`, or why there is none; it is killed after `limit_s`.

    It runs in the job's environment, or in `environ`. Raises OSError if `python` cannot be started.
    """
    words = [str(python), str(PROGRAMS / "launch.py"), name, msgspec.json.encode(request).decode()]
    variables = {**(context.environ if environ is None else environ), **_VARIABLES}
    ran = context.programs.run(words, cwd=context.cwd, environ=variables, timeout_s=limit_s)
    answer = _last_answer(ran.stdout)
    if answer is not None:
        return answer
    if ran.exit_code is None:
        return TorchAnswer(failed=f"no answer within {limit_s:g} s", stage="process")
    ending = f"exit code {ran.exit_code}"
    if ran.exit_code < 0:
        ending = f"signal {-ran.exit_code}"
    return TorchAnswer(failed=f"it ended by {ending}: {ran.last_words[:200]}", stage="process")


def _last_answer(stdout: str) -> TorchAnswer | None:
    """The last line: a module may print while it is imported."""
    lines = stdout.strip().splitlines()
    if not lines:
        return None
    try:
        return msgspec.json.decode(lines[-1], type=TorchAnswer)
    except msgspec.DecodeError:
        return None


def values_of(answer: TorchAnswer, kind: type[T], purpose: str) -> T:
    """The measured values. Raises UndeterminedError with `purpose` if there are none."""
    if answer.values is None:
        reason = answer.failed or "no values"
        raise UndeterminedError(f"{purpose}: {reason}")
    try:
        return msgspec.convert(answer.values, kind)
    except msgspec.ValidationError as error:
        raise UndeterminedError(f"{purpose}: the answer cannot be read: {error}") from error
