# SPDX-License-Identifier: Apache-2.0
"""Reads the machine and its interpreters: takes a snapshot, without secrets."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.drift.interpreters import read_interpreter
from ci_doctor.drift.machine import read_machine
from ci_doctor.drift.snapshot import InterpreterSnapshot, PackageSnapshot, Snapshot, by_folder
from ci_doctor.drift.snapshot_file import stamps_of
from ci_doctor.drift.system_packages import databases, read_system_packages
from ci_doctor.drift.variables import kept_variables, placed, plain_address
from ci_doctor.identity.identity import Identity
from ci_doctor.model.about import About
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor
from ci_doctor.version import tool_version

_GPU_LIMIT_S: Final = 15.0


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
    gpu_limit_s: float = _GPU_LIMIT_S
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
        machine=_without_secrets(machine, request.redactor),
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
    interpreters = []
    for each in snapshot.interpreters:
        folded = {
            name: replace(package, files={}, folders=by_folder(package.files))
            for name, package in each.packages.items()
        }
        interpreters.append(replace(each, packages=folded))
    return replace(snapshot, interpreters=tuple(interpreters))


def _places(environ: Mapping[str, str], cwd: Path) -> dict[str, str]:
    """What stands for the directories of this job, the longest first."""
    places = {str(cwd): "."}
    home = environ.get("HOME", "").rstrip("/")
    if home:
        places.setdefault(home, "~")
    return dict(sorted(places.items(), key=lambda item: -len(item[0])))


def _redacted(interpreter: InterpreterSnapshot, redactor: Redactor) -> InterpreterSnapshot:
    """Without secrets where one may stand: an address of an origin, a path."""
    packages = {
        name: _redacted_package(package, redactor) for name, package in interpreter.packages.items()
    }
    return replace(
        interpreter,
        python=redactor.text(interpreter.python),
        packages=packages,
        unknown={name: redactor.text(text) for name, text in interpreter.unknown.items()},
    )


def _redacted_package(package: PackageSnapshot, redactor: Redactor) -> PackageSnapshot:
    # Most come from an index: the time of a snapshot is spent here otherwise.
    if package.url is None and package.address is None:
        return package
    url = redactor.text(plain_address(package.url or "")) or None
    address = redactor.text(plain_address(package.address or "")) or None
    return replace(package, url=url, address=address)


def _without_secrets(machine: Identity, redactor: Redactor) -> Identity:
    def changed(part: Mapping[str, str]) -> dict[str, str]:
        return {name: redactor.without_values(text) for name, text in part.items()}

    return Identity.of(changed(machine.facts), changed(machine.unknown), changed(machine.noted))
