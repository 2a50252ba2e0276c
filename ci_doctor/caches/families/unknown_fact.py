# SPDX-License-Identifier: Apache-2.0
"""Pure. A fact that cannot be read."""


class UnknownFactError(Exception):
    """The text is the reason, for people."""
