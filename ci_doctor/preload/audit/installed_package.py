# SPDX-License-Identifier: Apache-2.0
"""Pure. What an interpreter reports of an installed package."""

from msgspec import Struct


class Script(Struct, frozen=True, kw_only=True):
    """An entry point of a distribution: `value` is `module:object`."""

    group: str
    name: str
    value: str


class InstalledPackage(Struct, frozen=True, kw_only=True):
    """What an interpreter reports of a package; it has not imported the package.

    `tops` are its top-level modules. `distribution` and `version` are None for code without
    metadata. `path` is sys.path without the working directory; `redirected` has the modules that an
    editable installation takes from elsewhere, with their files or directories. `versions` has the
    version of each installed distribution, by canonical name.
    """

    python_version: tuple[int, int]
    path: tuple[str, ...]
    stdlib: tuple[str, ...]
    redirected: dict[str, tuple[str, ...]]
    tops: tuple[str, ...]
    distribution: str | None
    version: str | None
    scripts: tuple[Script, ...]
