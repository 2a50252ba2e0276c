# SPDX-License-Identifier: Apache-2.0
"""Pure. A file on the Artifacts tab of a build."""

from msgspec import Struct


class Artifact(Struct, frozen=True, kw_only=True):
    """A file that a job uploaded: that job's id, its path on the Artifacts tab, its bytes."""

    job: str
    path: str
    size: int
