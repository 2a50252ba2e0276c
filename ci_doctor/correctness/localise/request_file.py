# SPDX-License-Identifier: Apache-2.0
"""Acts on files: the requests of the smallest condition, so that a command can send them again."""

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.evidence.files import SMALLEST
from ci_doctor.correctness.localise.localisation import Localisation
from ci_doctor.correctness.localise.trials import LocalisedDifference, Trial
from ci_doctor.errors import UsageError
from ci_doctor.system.files.writing import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

_WHOLE = "the command sends it as the run did"


def with_request_file(
    localisation: Localisation, directory: Path, redactor: Redactor
) -> Localisation:
    """`localisation`, with a file in `directory` if the smallest trial needs other requests.

    That is a changed copy, or some requests of the file in another order. A request with a secret is
    not written, and neither is one that the disk refuses: a note says so.
    """
    smallest = localisation.smallest
    if smallest is None or is_of_one(smallest, localisation.subject):
        return localisation
    blocks = smallest.blocks[:1] if smallest.at_once > 1 else smallest.blocks
    sent: Counter[str] = Counter()
    lines = ""
    for name in itertools.chain.from_iterable(block.names for block in blocks):
        sent[name] += 1
        again = f", time {sent[name]}" if sent[name] > 1 else ""
        request = localisation.requests[name]
        fields: dict[str, Any] = {
            "id": f"{name}{again}",
            "path": request.path,
            "body": request.body,
        }
        lines += json.dumps(fields | request.rare_parts()) + "\n"
    if redactor.without_values(lines) != lines:
        note = f"a request of the smallest condition holds a secret and is not written: {_WHOLE}"
        return replace(localisation, notes=(*localisation.notes, note))
    try:
        write_atomically(directory / SMALLEST, lines.encode("ascii"))
    except UsageError as error:
        note = f"{error.message}: {_WHOLE}"
        return replace(localisation, notes=(*localisation.notes, note))
    return replace(localisation, requests_file=f"{directory.name}/{SMALLEST}")


def is_of_one(trial: Trial, subject: LocalisedDifference) -> bool:
    """Whether a trial is one request of the run, once or several times."""
    return len(set(trial.names)) == 1 and trial.names[0] in subject.ids
