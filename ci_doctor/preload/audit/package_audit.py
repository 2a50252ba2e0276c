# SPDX-License-Identifier: Apache-2.0
"""Pure. The request for an audit, and what it found."""

from pathlib import Path

from msgspec import Struct

from ci_doctor.preload.audit.entry_points import EntryPoint
from ci_doctor.preload.audit.installed_package import InstalledPackage
from ci_doctor.preload.audit.limits import Limits
from ci_doctor.preload.audit.merged import MergedStart


class AuditRequest(Struct, frozen=True, kw_only=True):
    """What to audit.

    `triggers` are modules, or `module:function`, that a program imports or calls. `entries`: only
    entry points of these names. `follow` are further packages whose code is gone through.
    """

    package: str
    triggers: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    follow: tuple[str, ...] = ()
    timeout_s: float = 300.0


class PackageAudit(Struct, frozen=True, kw_only=True):
    """What was found. `missing` are entry points whose module is not there or has no source."""

    python: Path
    package: InstalledPackage
    entries: tuple[EntryPoint, ...]
    starts: tuple[MergedStart, ...]
    limits: Limits
    unread: dict[str, str]
    missing: tuple[EntryPoint, ...]
    modules: int
    seconds: float
