# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: takes a snapshot of the machine, of its interpreters and of the packages, without secrets."""

import base64
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.drift.machine import read_machine
from ci_doctor.drift.snapshot import (
    HASH_KEPT,
    InterpreterSnapshot,
    PackageSnapshot,
    Snapshot,
    by_folder,
    stamps_of,
)
from ci_doctor.drift.variables import kept_variables, placed
from ci_doctor.identity.libraries import commit_of
from ci_doctor.machine.interpreters import UnknownInterpreterError, choose_targets, interpreter_of
from ci_doctor.machine.packages import INSTALLERS_OWN, Origin, Package, installed, read_record
from ci_doctor.model.outcome import About
from ci_doctor.system import clock
from ci_doctor.system.processes.limited_runs import BegunCall, run_limited
from ci_doctor.system.secrets.redaction import Redactor
from ci_doctor.version import tool_version


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


# --- a snapshot of the machine and of its interpreters, without secrets ---


class SnapshotRequest(Struct, frozen=True, kw_only=True):
    """What to record. `about` is the build and the step; `root` stands above /proc and /etc.

    `has_contents`: read the contents of installed files. `gpu_limit_s`: how long the driver may take
    to answer, in seconds.
    """

    pythons: Sequence[Path]
    environ: Mapping[str, str]
    cwd: Path
    about: About
    redactor: Redactor
    has_contents: bool = False
    gpu_limit_s: float = 15.0
    root: Path = Path("/")


class TakenSnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot; the `stamps` of the places that decide what is installed tell how long it holds.

    `about` is that of the request, with its secrets.
    """

    snapshot: Snapshot
    about: About
    stamps: dict[str, str] = {}


def take_snapshot(request: SnapshotRequest) -> TakenSnapshot:
    """The environment as it is now. Raises nothing: what cannot be read is unknown."""
    places = _places(request.environ, request.cwd)
    # A virtual environment that the job makes would be the one to read.
    stamps = stamps_of([request.cwd / ".venv" / "bin" / "python", *databases(request.root)])
    interpreters = []
    for python in request.pythons:
        interpreter, of_interpreter = read_interpreter(
            python,
            request.environ,
            request.cwd,
            lambda text: placed(text, places),
            contents=request.has_contents,
        )
        stamps |= of_interpreter
        interpreters.append(_redacted(interpreter, request.redactor))
    machine = read_machine(request.environ, request.root, gpu_limit_s=request.gpu_limit_s)
    system = read_system_packages(request.environ)
    snapshot = Snapshot(
        tool_version=tool_version(),
        taken_at=clock.timestamp(),
        about=request.redactor.value(request.about),
        has_contents=request.has_contents,
        machine=machine.rewritten(request.redactor.without_values),
        variables=kept_variables(request.environ, request.redactor, places),
        interpreters=tuple(interpreters),
        # Names and versions of a public archive.
        system_packages=system.versions,
        system_packages_unknown=system.unknown,
    )
    return TakenSnapshot(snapshot=snapshot, about=request.about, stamps=stamps)


def for_a_report(snapshot: Snapshot) -> Snapshot:
    """`snapshot` with a hash for each folder of a package, in place of one for each file.

    The hashes of files take megabytes, and a report is kept with every run.
    """

    def folded(interpreter: InterpreterSnapshot) -> InterpreterSnapshot:
        packages = {
            name: replace(package, files={}, folders=by_folder(package.files))
            for name, package in interpreter.packages.items()
        }
        return replace(interpreter, packages=packages)

    return replace(snapshot, interpreters=tuple(map(folded, snapshot.interpreters)))


def _places(environ: Mapping[str, str], cwd: Path) -> dict[str, str]:
    """What stands for the directories of this job, the longest first."""
    places = {str(cwd): "."}
    home = environ.get("HOME", "").rstrip("/")
    if home:
        places.setdefault(home, "~")
    return dict(sorted(places.items(), key=lambda item: -len(item[0])))


def _redacted(interpreter: InterpreterSnapshot, redactor: Redactor) -> InterpreterSnapshot:
    """Without secrets where one may stand: in a path."""
    return replace(
        interpreter,
        python=redactor.text(interpreter.python),
        unknown={name: redactor.text(text) for name, text in interpreter.unknown.items()},
    )


# A Python without its site packages starts in some ten milliseconds.
_START_LIMIT_S: Final = 5.0
_PROGRAM: Final = (
    "import sys; print(sys.implementation.name, sys.version.split()[0]); print(sys.executable)"
)


class _StartedPython(Struct, frozen=True, kw_only=True):
    """What an interpreter says of itself: its version, and its own path if it could be started."""

    version: str | None = None
    executable: Path | None = None
    unknown: str | None = None


class InterpreterRead(NamedTuple):
    """An interpreter, and the stamps of where its packages lie, from before they were read."""

    snapshot: InterpreterSnapshot
    stamps: dict[str, str]


def snapshot_targets(
    pythons: Sequence[str], venvs: Sequence[str], cwd: Path, environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """The interpreters of the job, as `choose_targets` gives them.

    A virtual environment whose Python is gone is one of them: what is left of it is what people want
    to know. Raises UsageError for a named one that never was one.
    """
    targets = choose_targets(pythons, venvs, [cwd], environ, broken=True)
    return tuple(target.python for target in targets)


def read_interpreter(
    python: Path,
    environ: Mapping[str, str],
    cwd: Path,
    shown: Callable[[str], str],
    *,
    contents: bool,
) -> InterpreterRead:
    """What `python` is and has; `shown` writes a path as it is to be kept. Raises nothing."""
    unknown: dict[str, str] = {}
    # It starts while its packages are read.
    starting = BegunCall(lambda: _started(python, environ, cwd))
    try:
        directories = _directories(python, starting, environ, cwd)
    # RuntimeError: a link that leads to itself.
    except (UnknownInterpreterError, OSError, RuntimeError) as error:
        unknown["packages"] = str(error)
        directories = ()
    stamps = stamps_of([python, *directories])
    packages = read_packages(directories, contents=contents)
    for directory in directories:
        # One that does not exist holds nothing, but this one may.
        if directory.is_dir() and not os.access(directory, os.R_OK | os.X_OK):
            unknown["packages"] = f"{directory} cannot be read"
    started = starting.result()
    if started.unknown is not None:
        unknown["version"] = started.unknown
    snapshot = InterpreterSnapshot(
        python=shown(str(python)),
        version=started.version,
        packages=packages,
        start_files=_start_files(directories),
        unknown={name: shown(reason) for name, reason in sorted(unknown.items())},
    )
    return InterpreterRead(snapshot, stamps)


def _started(python: Path, environ: Mapping[str, str], cwd: Path) -> _StartedPython:
    from ci_doctor.system.processes.limited_runs import run_limited

    command = [str(python), "-I", "-S", "-c", _PROGRAM]
    try:
        ran = run_limited(command, timeout_s=_START_LIMIT_S, cwd=cwd, environ=environ)
    except OSError as error:
        return _StartedPython(unknown=f"{python} cannot be started: {error.strerror}")
    if ran.exit_code is None:
        return _StartedPython(unknown=f"{python} has not ended within {_START_LIMIT_S:g} s")
    # A Python, or a script in its place, may warn of something first.
    lines = ran.stdout.strip().splitlines()[-2:]
    if ran.exit_code or len(lines) < 2:
        return _StartedPython(unknown=f"{python} cannot be started: {ran.last_words}")
    version, executable = lines
    return _StartedPython(version=version, executable=Path(executable))


def _directories(
    python: Path, starting: BegunCall[_StartedPython], environ: Mapping[str, str], cwd: Path
) -> Sequence[Path]:
    """Where `python` looks for packages.

    Raises UnknownInterpreterError, OSError, and RuntimeError for a link that leads to itself.
    """
    try:
        return interpreter_of([str(python)], environ, cwd).directories
    except UnknownInterpreterError:
        # Of a venv whose Python is gone, the packages are still there.
        directories = sorted(python.parent.parent.glob("lib/python3*/site-packages"))
        if directories:
            return directories
        executable = starting.result().executable
        if executable is None:
            raise
        # A script under the name of a Python, such as pyenv's.
        return interpreter_of([str(executable)], environ, cwd).directories


def _start_files(directories: Sequence[Path]) -> dict[str, str]:
    """What every start runs (site.py): `.pth` files of all directories, and a sitecustomize."""
    files: dict[str, str] = {}
    for directory in directories:
        custom = [directory / name for name in ("sitecustomize.py", "usercustomize.py")]
        for path in (*sorted(directory.glob("*.pth")), *custom):
            # It holds a path of this machine; its package is recorded by its commit.
            if path.name.startswith("__editable__"):
                continue
            try:
                content = path.read_bytes()
            except OSError:
                continue
            files.setdefault(path.name, content_hash(hashlib.sha256(content).digest()))
    return dict(sorted(files.items()))
