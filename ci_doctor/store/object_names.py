# SPDX-License-Identifier: Apache-2.0
"""Pure. Which names an object may have, in a directory and in an object store alike."""

import re
from typing import Final

from ci_doctor.store.errors import DamagedError

# What a write has not finished, in a directory.
TEMPORARY: Final = ".ci-doctor-tmp."
_COMPONENT: Final = re.compile(
    r"(?:\.ci-doctor-tmp\.)?[A-Za-z0-9_][A-Za-z0-9._@+-]{0,200}", re.ASCII
)


def check_object_name(name: str) -> None:
    """Raise DamagedError unless `name` is plain components joined by "/": none can leave the store."""
    if not all(_COMPONENT.fullmatch(component) for component in name.split("/")):
        raise DamagedError(f"{name[:200]!r} cannot be the name of an object")
