# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which packages of the distribution are installed, by its own program.

The databases belong to these programs. A distroless image has packages and no program: unknown.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.system.processes.limited_run import LimitedRun, run_limited

_LIMIT_S: Final = 5.0
# A name, a version and, where several of one name may be installed, the architecture in each line:
# dpkg-query(1), "--show"; rpm(8), "--queryformat"; apk(8), "info --verbose".
_DPKG: Final = (
    "dpkg-query",
    "--show",
    "--showformat=${db:Status-Status}\\t${Package}\\t${Version}\\t${Architecture}\\n",
)
_RPM: Final = ("rpm", "--query", "--all", "--queryformat=%{NAME}\\t%{VERSION}-%{RELEASE}\\n")
_APK: Final = ("apk", "info", "--verbose")
# Installers write one of these.
_DATABASES: Final = (
    "var/lib/dpkg/status",
    "lib/apk/db/installed",
    "usr/lib/apk/db/installed",
    "usr/lib/sysimage/rpm/rpmdb.sqlite",
    "var/lib/rpm/rpmdb.sqlite",
    "usr/lib/sysimage/rpm/Packages.db",
    "var/lib/rpm/Packages",
)


class SystemPackages(Struct, frozen=True, kw_only=True):
    """Name -> version, by name; `unknown` is the reason if they cannot be read."""

    versions: dict[str, str] = {}
    unknown: str | None = None


def databases(root: Path = Path("/")) -> tuple[Path, ...]:
    """Where the databases of distributions lie, whether they exist or not."""
    return tuple(root / name for name in _DATABASES)


def read_system_packages(environ: Mapping[str, str], timeout_s: float = _LIMIT_S) -> SystemPackages:
    """The packages of the distribution of this machine, by the first of its programs that is there.

    Raises nothing. dpkg and rpm may both be installed, and the one that is not the distribution's lists
    nothing: then the next one is asked.
    """
    unknown = "there is no program of dpkg, rpm or apk"
    for command in (_DPKG, _RPM, _APK):
        if shutil.which(command[0], path=environ.get("PATH", "")) is None:
            continue
        environment = {**environ, "LC_ALL": "C"}
        try:
            ran = run_limited(command, timeout_s=timeout_s, cwd=Path("/"), environ=environment)
        except OSError as error:
            unknown = f"{command[0]} cannot be started: {error.strerror}"
            continue
        versions = _versions(command, ran)
        if versions:
            return SystemPackages(versions=dict(sorted(versions.items())))
        unknown = f"{command[0]} lists no package"
        if ran.exit_code is None:
            unknown = f"{command[0]} has not answered within {timeout_s:g} s"
        elif ran.exit_code:
            unknown = f"{command[0]} failed: {ran.last_line}"
    return SystemPackages(unknown=unknown)


def _versions(command: tuple[str, ...], ran: LimitedRun) -> dict[str, str]:
    """The packages that a program lists; none if it failed, for a part would look like removals."""
    versions: dict[str, str] = {}
    if ran.exit_code != 0:
        return versions
    for line in ran.output.splitlines():
        match (command, line.split("\t")):
            # A removed package may leave its configuration.
            case (("dpkg-query", *_), ["installed", name, version, architecture]):
                versions[f"{name}:{architecture}" if name in versions else name] = version
            case (("rpm", *_), [name, version]):
                # Several kernels may be installed at once.
                known = versions.get(name)
                if known is None or version not in known.split(" and "):
                    versions[name] = version if known is None else f"{known} and {version}"
            case (("apk", *_), [words]) if words.count("-") >= 2 and " " not in words:
                name, version, revision = words.rsplit("-", 2)
                versions[name] = f"{version}-{revision}"
            case _:
                pass
    return versions
