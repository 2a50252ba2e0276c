# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which packages are installed, those of Python by their files, those of the system by its program.

The databases of a distribution belong to its own program. A distroless image has packages and no such
program: they are unknown.
"""

import base64
import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.drift.snapshot import HASH_KEPT, PackageSnapshot
from ci_doctor.identity.libraries import commit_of
from ci_doctor.machine.packages import INSTALLERS_OWN, Origin, Package, installed, read_record
from ci_doctor.system.processes.limited_runs import run_limited


def read_packages(directories: Iterable[Path], *, contents: bool) -> dict[str, PackageSnapshot]:
    """Every distribution by its normal name; of two of one name, the one that is imported.

    `contents`: read the files too, which takes as long as reading all of them does. Raises nothing:
    what cannot be read is unknown.
    """
    packages: dict[str, PackageSnapshot] = {}
    for package in installed(directories):
        former = packages.get(package.name)
        if former is not None:
            further = (*former.further_versions, package.version or "unknown")
            packages[package.name] = replace(former, further_versions=further)
        else:
            packages[package.name] = _snapshot(package, contents=contents)
    return dict(sorted(packages.items()))


def _snapshot(package: Package, *, contents: bool) -> PackageSnapshot:
    unknown: dict[str, str] = {}
    if not package.version:
        unknown["version"] = f"{package.folder.name} names none"
    origin: Origin = package.origin
    commit = origin.commit
    files: dict[str, str] = {}
    actual: dict[str, str] = {}
    if origin.is_editable:
        commit = commit_of(origin.source) if origin.source is not None else None
        unknown["files"] = "an editable installation: its commit stands for them"
        if commit is None:
            unknown["commit"] = "the directory of the editable installation is no git checkout"
    else:
        files = recorded_files(package.folder)
        actual = _content_hashes(package.site, files) if contents else {}
        if not files:
            unknown["files"] = "there is no RECORD with hashes"
    return PackageSnapshot(
        version=package.version or None,
        commit=commit,
        is_editable=origin.is_editable,
        unknown=unknown,
        files={**files, **actual},
    )


def recorded_files(folder: Path) -> dict[str, str]:
    """Path -> the first characters of its hash, by path; the same wherever the wheel is installed.

    Scripts lie outside of the site directory and name their interpreter; bytecode has no hash. Both
    are left out. A hash that is no SHA-256 keeps its algorithm in front.
    """
    files: dict[str, str] = {}
    for each in read_record(folder):
        is_installers = ".dist-info/" in each.path and Path(each.path).name in INSTALLERS_OWN
        if not each.digest or not each.is_in_site or is_installers:
            continue
        algorithm, _, digest = each.digest.partition("=")
        front = "" if each.digest.startswith("sha256=") else f"{algorithm}="
        files[each.path] = f"{front}{digest[:HASH_KEPT]}"
    return dict(sorted(files.items()))


def content_hash(digest: bytes) -> str:
    """A SHA-256 in the form in which `recorded_files` gives one."""
    return base64.urlsafe_b64encode(digest).decode("ascii")[:HASH_KEPT]


def _content_hashes(site: Path, files: Mapping[str, str]) -> dict[str, str]:
    """The hashes of the contents, by path; a file whose recorded hash is no SHA-256 is left out."""
    from concurrent.futures import ThreadPoolExecutor

    paths = [path for path, recorded in files.items() if "=" not in recorded]
    # Hashing a file releases the interpreter's lock.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        hashes = pool.map(lambda path: _content_hash(site / path), paths)
        return dict(zip(paths, hashes, strict=True))


def _content_hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return content_hash(hashlib.file_digest(file, "sha256").digest())
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"unreadable: {error.strerror}"


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
    nothing: then the next one is asked. After one that ends too late or in the middle of its list, none
    is: what another lists would not be all.
    """
    unknown: str | None = None
    for command in (_DPKG, _RPM, _APK):
        program = command[0]
        if shutil.which(program, path=environ.get("PATH", "")) is None:
            continue
        try:
            ran = run_limited(
                command, timeout_s=timeout_s, cwd=Path("/"), environ={**environ, "LC_ALL": "C"}
            )
        except OSError as error:
            unknown = f"{program} cannot be started: {error.strerror}"
            continue
        versions = _versions(command, ran.stdout)
        if ran.exit_code is None:
            return SystemPackages(unknown=f"{program} has not answered within {timeout_s:g} s")
        if ran.exit_code == 0 and versions:
            return SystemPackages(versions=dict(sorted(versions.items())))
        if ran.exit_code != 0:
            unknown = f"{program} failed: {ran.last_words}"
        if versions:
            break
        unknown = unknown or f"{program} lists no package"
    return SystemPackages(unknown=unknown or "there is no program of dpkg, rpm or apk")


def _versions(command: tuple[str, ...], output: str) -> dict[str, str]:
    """The packages that a program lists."""
    versions: dict[str, str] = {}
    for line in output.splitlines():
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
