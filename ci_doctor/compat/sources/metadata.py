# SPDX-License-Identifier: Apache-2.0
"""Pure. Name and version in the core metadata of a distribution (METADATA, PKG-INFO)."""

from email.parser import BytesHeaderParser

from msgspec import Struct


class MetadataFields(Struct, frozen=True, kw_only=True):
    """What a distribution says of itself; None if it does not."""

    name: str | None = None
    version: str | None = None
    requires_python: str | None = None


def metadata_fields(content: bytes) -> MetadataFields:
    """Name, version and the Python it asks for."""
    headers = BytesHeaderParser().parsebytes(content)
    return MetadataFields(
        name=headers.get("Name"),
        version=headers.get("Version"),
        requires_python=headers.get("Requires-Python"),
    )
