# SPDX-License-Identifier: Apache-2.0
"""Acts on an archive's directory: removes what killed writers left, and empty directories.

An object store has neither.
"""

import contextlib
import re
from datetime import datetime
from pathlib import Path

from ci_doctor.correctness.archive.archive_store import identity_places
from ci_doctor.store.object_names import TEMPORARY
from ci_doctor.system import clock

# What a killed writer leaves behind, the first three of earlier versions. A writer that lives is
# done long before an hour.
_TORN = re.compile(
    r"\.(?:start-|identity\.json\.|revoked-[0-9a-f]{40,64}\.json\.)[A-Za-z0-9_]{8}(?:\.tmp)?"
    rf"|{re.escape(TEMPORARY)}[0-9a-f]{{16}}"
)
_TORN_S = 3600.0


def remove_remains(directory: Path) -> None:
    """Remove temporary files that are an hour old, and identities' directories that are empty.

    Raises nothing.
    """
    _remove_torn(directory)
    for place in identity_places(directory):
        _remove_torn(place)
        # It fails if anything is in it, also a file that a writer has just begun.
        with contextlib.suppress(OSError):
            place.rmdir()


def _remove_torn(directory: Path) -> None:
    latest = datetime.fromisoformat(clock.timestamp()).timestamp() - _TORN_S
    with contextlib.suppress(OSError):
        for path in list(directory.iterdir()):
            # `lstat`: the age of a link itself, and not that of the file it leads to.
            if _TORN.fullmatch(path.name) and path.lstat().st_mtime < latest:
                path.unlink(missing_ok=True)
