# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of each command, typed and versioned: history, merge and diff read them.

One module per command holds its struct. A field may be added without a new version; a field that
is renamed, removed or changed in meaning needs one.
"""

from msgspec import Struct


class Facts(Struct, frozen=True, kw_only=True):
    """What a report's verdict rests on, for programs.

    A command without facts of its own has only the version.
    """

    version: int = 1
