# SPDX-License-Identifier: Apache-2.0
"""Pure. Why nothing could be built, on its way to become a finding."""


class Unbuildable(Exception):  # noqa: N818 - not an error of ci-doctor: it ends as a finding
    """Raised where the build itself cannot be tried; `reason` is a clause for a report."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
