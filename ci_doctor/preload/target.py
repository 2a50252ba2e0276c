# SPDX-License-Identifier: Apache-2.0
"""Pure. An interpreter into which a shim may go."""

from pathlib import Path

from msgspec import Struct


class Target(Struct, frozen=True, kw_only=True):
    """An interpreter and the site directory that its shim belongs in.

    `cache_tag` and `magic` (hexadecimal): how it names and marks its bytecode. `prefix` is the root
    of a virtual environment, None for any other interpreter.
    """

    python: Path
    version: tuple[int, int, int]
    site_dir: Path
    externally_managed: bool
    writable: bool
    cache_tag: str | None = None
    magic: str = ""
    prefix: Path | None = None

    @property
    def version_text(self) -> str:
        """Such as `3.12.1`."""
        return ".".join(map(str, self.version))
