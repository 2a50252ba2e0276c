# SPDX-License-Identifier: Apache-2.0
"""Pure. Why a log cannot be read."""


class UnreadableLogError(OSError):
    """Its text is the reason, for a person, without the name of the log."""
