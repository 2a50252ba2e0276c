# SPDX-License-Identifier: Apache-2.0
"""Pure. Interpreters that were refused, in an outcome."""

from collections.abc import Sequence
from typing import Final

from ci_doctor.errors import CiDoctorError, InfraError, PreparationError
from ci_doctor.model.facts.preload import RefusalFact, RefusedFact
from ci_doctor.model.outcome import ErrorKind, Failure
from ci_doctor.model.table import Row, Table, row
from ci_doctor.model.verdict import Verdict
from ci_doctor.preload.result import Refused

# With several refusals of different kinds: what the user can correct at once, then what is a
# finding.
_WORST_FIRST: Final = (ErrorKind.USAGE, ErrorKind.PREPARATION, ErrorKind.INFRA)
_VERDICTS: Final = {ErrorKind.PREPARATION: Verdict.FAILED, ErrorKind.INFRA: Verdict.INFRA}


def worst(refused: Sequence[Refused]) -> tuple[Verdict | None, Failure]:
    """The verdict and the error of an outcome with these refusals, at least one."""
    by_kind = {_kind(each.error): each.error for each in reversed(refused)}
    kind = min(by_kind, key=_WORST_FIRST.index)
    error = by_kind[kind]
    return _VERDICTS.get(kind), Failure(message=error.message, hint=error.hint, kind=kind)


def refusal_table(result: Refused) -> Table:
    """Why an interpreter was refused, and what to do."""
    rows: list[Row] = [row("refused", result.error.message)]
    if result.error.hint:
        rows.append(row("hint", result.error.hint))
    return Table(title=str(result.python), rows=tuple(rows))


def refusal_fact(error: CiDoctorError) -> RefusalFact:
    """The reason, for programs."""
    return RefusalFact(message=error.message, hint=error.hint, exit_code=int(error.code))


def refused_fact(result: Refused) -> RefusedFact:
    """The interpreter and the reason."""
    return RefusedFact(
        python=str(result.python),
        site_dir=site_dir_of(result),
        refused=refusal_fact(result.error),
    )


def site_dir_of(result: Refused) -> str | None:
    """The site directory, if the interpreter could be examined."""
    return str(result.target.site_dir) if result.target else None


def _kind(error: CiDoctorError) -> ErrorKind:
    match error:
        case PreparationError():
            return ErrorKind.PREPARATION
        case InfraError():
            return ErrorKind.INFRA
        case _:
            return ErrorKind.USAGE
