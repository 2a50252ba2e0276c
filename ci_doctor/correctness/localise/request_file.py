# SPDX-License-Identifier: Apache-2.0
"""Acts on files: the request with a shortened prompt, so that a command can send it again."""

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.evidence.files import SMALLEST
from ci_doctor.correctness.localise.localisation import Localisation
from ci_doctor.correctness.localise.steps import requests_of
from ci_doctor.errors import UsageError
from ci_doctor.load.requests import Request
from ci_doctor.system.files.atomic import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

_WHOLE = "the command sends the whole prompt"


def with_request_file(
    localisation: Localisation, directory: Path, redactor: Redactor
) -> Localisation:
    """`localisation`, with a requests file in `directory` if the smallest condition shortens a prompt.

    A prompt with a secret is not written, and neither is one that the disk refuses: a note says so.
    """
    smallest = localisation.smallest
    if smallest is None or smallest.condition.prefix is None:
        return localisation
    (request,) = requests_of(localisation.subject, smallest.condition)
    line = _line(request)
    if redactor.without_values(line) != line:
        note = f"the shortened prompt holds a secret and is not written: {_WHOLE}"
        return replace(localisation, notes=(*localisation.notes, note))
    try:
        write_atomically(directory / SMALLEST, f"{line}\n".encode("ascii"))
    except UsageError as error:
        note = f"{error.message}: {_WHOLE}"
        return replace(localisation, notes=(*localisation.notes, note))
    return replace(localisation, requests_file=f"{directory.name}/{SMALLEST}")


def _line(request: Request) -> str:
    fields: dict[str, Any] = {"id": request.id, "path": request.path, "body": request.body}
    return json.dumps(fields | request.rare_parts())
