# SPDX-License-Identifier: Apache-2.0
"""Pure. A module that was parsed: its scopes and the places in it that use names."""

from collections.abc import Sequence

from msgspec import Struct, field

from ci_doctor.compat.reading.name_scope import NameScope, UseSite


class ReadModule(Struct, kw_only=True, eq=False):
    """A module: its scopes, and the places that use names, in the order of the source."""

    name: str
    is_package: bool
    path: str
    lines: Sequence[str]
    scope: NameScope
    sites: list[UseSite] = field(default_factory=list)
    classes: list[NameScope] = field(default_factory=list)
    patched: set[str] = field(default_factory=set)
