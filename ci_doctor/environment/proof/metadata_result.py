# SPDX-License-Identifier: Apache-2.0
"""Pure. What a build of a project's metadata gave."""

from msgspec import Struct


class BuiltMetadata(Struct, frozen=True, kw_only=True):
    """`version` as the metadata states it; None if the build failed, and `failure` says how."""

    version: str | None = None
    failure: str | None = None
