# SPDX-License-Identifier: Apache-2.0
"""Acts on files: the requests of the smallest condition, so that a command can send them again."""

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.evidence.files import SMALLEST
from ci_doctor.correctness.localise.conditions import ReducedCondition
from ci_doctor.correctness.localise.localisation import Localisation
from ci_doctor.correctness.localise.steps import requests_of
from ci_doctor.errors import UsageError
from ci_doctor.load.requests import Request
from ci_doctor.system.files.atomic import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

_WHOLE = "the command sends it as the run did"


def with_request_file(
    localisation: Localisation, directory: Path, redactor: Redactor
) -> Localisation:
    """`localisation`, with a file in `directory` if the smallest condition needs other requests.

    That is a shorter prompt, a body without a key, or some requests of the file. A request with a
    secret is not written, and neither is one that the disk refuses: a note says so.
    """
    smallest = localisation.smallest
    if smallest is None or not _needs_file(smallest.condition):
        return localisation
    lines = "".join(
        f"{_line(each)}\n" for each in requests_of(localisation.subject, smallest.condition)
    )
    if redactor.without_values(lines) != lines:
        note = f"a request of the smallest condition holds a secret and is not written: {_WHOLE}"
        return replace(localisation, notes=(*localisation.notes, note))
    try:
        write_atomically(directory / SMALLEST, lines.encode("ascii"))
    except UsageError as error:
        note = f"{error.message}: {_WHOLE}"
        return replace(localisation, notes=(*localisation.notes, note))
    return replace(localisation, requests_file=f"{directory.name}/{SMALLEST}")


def _needs_file(condition: ReducedCondition) -> bool:
    is_changed = condition.prefix is not None or condition.without is not None
    return is_changed or bool(condition.before or condition.beside)


def _line(request: Request) -> str:
    fields: dict[str, Any] = {"id": request.id, "path": request.path, "body": request.body}
    return json.dumps(fields | request.rare_parts())
