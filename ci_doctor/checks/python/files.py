# SPDX-License-Identifier: Apache-2.0
"""Reads the installed files: whether they are there, as RECORD has them, readable, and for this machine.

A compiled module must fit the interpreter by its wheel's tags (PEP 425, 600, 656), and by the ending of
its name.
"""

import os
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

from ci_doctor.checks.check import CheckResult, Findings, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.environments import (
    InstalledEnvironment,
    environment_check,
    read_records,
)
from ci_doctor.checks.python.paths import compiled_modules, modules_in
from ci_doctor.machine.host import content_of
from ci_doctor.machine.packages import Package, RecordedFile
from ci_doctor.model.finding import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount, size

if TYPE_CHECKING:
    from packaging.tags import Tag

    from ci_doctor.machine.interpreters import PythonState

FILES_MISSING: Final = Rule(
    id="doctor/files-missing",
    severity=Severity.ERROR,
    meaning="Files that a distribution has installed, by its RECORD, are not on the disk.",
    remedy="Install the distribution again with `--force-reinstall`.",
)
PACKAGE_MODIFIED: Final = Rule(
    id="doctor/package-modified",
    severity=Severity.WARNING,
    meaning="Files of a distribution have another size than its RECORD says: they were edited in place, "
    "overwritten, or cut off by a full disk. Its version does not tell what runs.",
    remedy="Install the distribution again with `--force-reinstall`.",
)
WHEEL_OF_ANOTHER_PLATFORM: Final = Rule(
    id="doctor/wheel-of-another-platform",
    severity=Severity.ERROR,
    meaning="A distribution was built for another Python version, processor or C library than the "
    "interpreter's, so its compiled modules are not found or do not load.",
    remedy="Install it again with this interpreter.",
)
TORCH_WITHOUT_CUDA: Final = Rule(
    id="doctor/torch-without-cuda",
    severity=Severity.WARNING,
    meaning="The installed torch is built without CUDA, beside packages that are built for it: their "
    "compiled modules do not load.",
    remedy="Install torch from the index of the CUDA version that those packages name.",
)

_CODE: Final = (".py", ".so")
# Images are made smaller by removing these.
_DISPENSABLE: Final = ("/tests/", "/test/", "/testing/", "/docs/", "/examples/")
# Their compiled modules are linked against torch's CUDA libraries.
_CUDA_ONLY: Final = frozenset(
    {"flash-attn", "flashinfer-python", "sgl-kernel", "xformers", "deep-gemm"}
)
_SHOWN: Final = 4
# Such as `.cpython-310-x86_64-linux-gnu.so`.
_TAGGED = re.compile(r"\.(cpython|pypy)[-0-9a-z_]*\.so$")
# The whole header of a 64-bit file.
_HEAD_BYTES = 64
_CLASS_64 = 2


class _Absence(Enum):
    """Why a file has no size."""

    MISSING = "missing"
    UNKNOWN = "cannot be read"


@environment_check("python/files", title="installed files are there, as RECORD has them")
def files(environment: InstalledEnvironment, context: CheckContext) -> Findings:
    """Files that are missing, and files of another size: edited, overwritten, cut off."""
    records = context.shared(read_records)
    count = 0
    unreadable = 0
    for package in environment.installed:
        missing: list[RecordedFile] = []
        resized: list[RecordedFile] = []
        for file in _looked_at(records.get(package.folder, ())):
            count += 1
            actual = _actual_size(f"{package.site}/{file.path}")
            if actual is _Absence.MISSING:
                missing.append(file)
            elif actual is _Absence.UNKNOWN:
                unreadable += 1
            elif file.size not in {None, actual}:
                resized.append(file)
        if missing:
            yield _gone(environment, package, missing)
        if resized:
            yield _changed(environment, package, resized)
    unknown = f"{amount(unreadable, 'installed file')} cannot be read" if unreadable else None
    return CheckResult(
        summary=f"{amount(count, 'installed file')} compared with RECORD", unknown=unknown
    )


def _actual_size(path: str) -> int | _Absence:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - thousands of files are looked at
    except (FileNotFoundError, NotADirectoryError):
        return _Absence.MISSING
    except OSError:
        return _Absence.UNKNOWN


def _looked_at(files: Sequence[RecordedFile]) -> Iterator[RecordedFile]:
    for file in files:
        # The target of an `__editable__…` is the sources, wherever they are.
        is_code = file.path.endswith(_CODE) and not file.path.startswith("__editable__")
        if is_code and not any(part in f"/{file.path}" for part in _DISPENSABLE):
            yield file


def _gone(
    environment: InstalledEnvironment, package: Package, missing: Sequence[RecordedFile]
) -> Problem:
    summary = (
        f"{package.words} has installed {amount(len(missing), 'file')} that no longer exist: "
        f"{_names(missing)}"
    )
    if len(missing) == 1:
        summary = f"{package.words} has installed {missing[0].path}, which no longer exists"
    return problem(
        FILES_MISSING,
        summary,
        evidence=_evidence(package, missing),
        remedy=environment.reinstallation(package),
    )


def _changed(
    environment: InstalledEnvironment, package: Package, resized: Sequence[RecordedFile]
) -> Problem:
    cut = [file for file in resized if _is_cut(package, file)]
    count = amount(len(resized), "file")
    summary = f"{package.words} was changed in place: {count} with another size than in RECORD"
    if cut:
        summary = f"{package.words} has files without their end: {_names(cut)}"
    return problem(
        PACKAGE_MODIFIED,
        summary,
        evidence=_evidence(package, cut or resized),
        remedy=environment.reinstallation(package),
        severity=Severity.ERROR if cut else Severity.WARNING,
    )


def _is_cut(package: Package, file: RecordedFile) -> bool:
    path = package.site / file.path
    try:
        return path.stat().st_size == 0 or is_cut_off(str(path))
    except OSError:
        return False


def _names(files: Sequence[RecordedFile]) -> str:
    return ", ".join(file.path for file in files[:_SHOWN])


def _evidence(package: Package, files: Sequence[RecordedFile]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            file=str(package.site / file.path),
            excerpt=None if file.size is None else f"RECORD: {size(file.size)}",
        )
        for file in files[:_SHOWN]
    )


@environment_check("python/wheels", title="compiled packages were built for the interpreter")
def wheels(environment: InstalledEnvironment, context: CheckContext) -> Findings:
    """Distributions that were built for another Python, processor or C library."""
    records = context.shared(read_records)
    fitting = fitting_tags(environment.state)
    count = 0
    for package in environment.installed:
        paths = [file.path for file in records.get(package.folder, ())]
        libraries = [path for path in paths if path.endswith(".so")]
        count += bool(libraries)
        yield from _built_for_another(environment, package)
        for reason, evidence in _misfits(environment.state, package, libraries, fitting):
            python = f"{environment.python} (Python {environment.state.version})"
            yield problem(
                WHEEL_OF_ANOTHER_PLATFORM,
                f"{package.words} does not fit {python}: {reason}",
                evidence=evidence,
                remedy=environment.reinstallation(package),
            )
            break
    # A torch for the CPU beside packages that need its CUDA libraries.
    torch = [each for each in environment.installed if each.name == "torch"]
    needing = sorted(each.words for each in environment.installed if each.name in _CUDA_ONLY)
    if torch and needing and torch[0].version.endswith("+cpu"):
        names = " and ".join(needing)
        yield problem(
            TORCH_WITHOUT_CUDA,
            f"{torch[0].words} is built without CUDA, and {names} needs it",
            evidence=(Evidence(file=str(torch[0].folder)),),
        )
    return f"{amount(count, 'distribution')} with compiled modules"


def fitting_tags(state: "PythonState") -> "frozenset[Tag] | None":
    """The tags of wheels that fit; None for an interpreter whose tags cannot be known from here.

    The platforms are those of this process: the same processor, and the same kind of C library.
    """
    from packaging import tags

    platforms = list(tags.platform_tags())
    has_glibc = any(platform.startswith("manylinux") for platform in platforms)
    if state.implementation != "cpython" or has_glibc != bool(state.glibc):
        return None
    major, minor = (int(part) for part in state.version.split(".")[:2])
    name = f"cp{major}{minor}"
    # An interpreter without the global lock has an interface of its own (PEP 703).
    is_free = any(f"cpython-{major}{minor}t" in suffix for suffix in state.suffixes)
    return frozenset(
        (
            *tags.cpython_tags((major, minor), [f"{name}t" if is_free else name], platforms),
            *tags.compatible_tags((major, minor), name, platforms),
        )
    )


def is_misfit(words: Sequence[str], fitting: "frozenset[Tag]") -> bool:
    """Whether no tag of a wheel fits. A wheel without compiled code runs under a later Python, too."""
    from packaging.tags import parse_tag

    own = [tag for word in words if word.count("-") == 2 for tag in parse_tag(word)]
    pure = [tag for tag in own if (tag.abi, tag.platform) == ("none", "any")]
    return bool(own) and not pure and fitting.isdisjoint(own)


def _misfits(
    state: "PythonState",
    package: Package,
    libraries: Sequence[str],
    fitting: "frozenset[Tag] | None",
) -> Iterator[tuple[str, tuple[Evidence, ...]]]:
    """Why it does not fit, with the evidence: by its tags, or by its files' names."""
    # The tags in WHEEL; none for what no wheel was installed from.
    lines = content_of(package.folder / "WHEEL").splitlines()
    tags = [line.removeprefix("Tag:").strip() for line in lines if line.startswith("Tag:")]
    if fitting is not None and is_misfit(tags, fitting):
        yield (
            f"its wheel is for {tags[0]}, and this is {state.machine} with {state.glibc}",
            (Evidence(file=str(package.folder / "WHEEL")),),
        )
    strange = misnamed(libraries, state)
    if strange:
        yield (
            f"it has {amount(len(strange), 'module')} for another Python",
            tuple(Evidence(file=str(package.site / path)) for path in strange[:_SHOWN]),
        )


def misnamed(paths: Sequence[str], state: "PythonState") -> list[str]:
    """Of extension modules those that this interpreter does not look for, and finds no other for."""
    served = set()
    strange = []
    for path in paths:
        match = _TAGGED.search(path)
        # `.abi3.so` and a bare `.so` have no such tag.
        if match is None:
            served.add(path.removesuffix(".so").removesuffix(".abi3"))
        elif match[0] in state.suffixes:
            served.add(path[: match.start()])
        else:
            strange.append((path[: match.start()], path))
    return [path for stem, path in strange if stem not in served]


def _built_for_another(environment: InstalledEnvironment, package: Package) -> Iterator[Problem]:
    """The compiled modules of an editable installation: they were built where the sources are."""
    source = package.origin.source
    if source is None or not package.origin.is_editable:
        return
    suffixes = environment.state.suffixes
    built = []
    for top in (source, source / "src", source / "python"):
        for module in modules_in(top, suffixes):
            built += [str(module.path / name) for name in compiled_modules(module.path)]
    strange = misnamed(built, environment.state)
    if strange:
        yield problem(
            WHEEL_OF_ANOTHER_PLATFORM,
            f"{package.words}, an editable installation of {source}, has compiled modules for "
            f"another Python than {environment.state.version} of {environment.python}",
            evidence=tuple(Evidence(file=path) for path in strange[:_SHOWN]),
            remedy=ShellCommand(environment.pip_line("install", ["--no-deps", "-e", str(source)])),
        )


def is_cut_off(path: str) -> bool:
    """Whether the end of a shared library is missing, as a full disk leaves it. Raises OSError."""
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        head = file.read(_HEAD_BYTES)
        size = os.fstat(file.fileno()).st_size
    return head.startswith(b"\x7fELF") and size < _end_of_sections(head)


def _end_of_sections(head: bytes) -> int:
    """Where the table of sections ends, in bytes: the last thing in a file that a linker writes.

    0 for a file without one, and for one of 32 bits.
    """
    if len(head) < _HEAD_BYTES or head[4] != _CLASS_64:
        return 0
    order: Literal["big", "little"] = "big" if head[5] == 2 else "little"
    offset = int.from_bytes(head[40:48], order)  # e_shoff
    size = int.from_bytes(head[58:60], order)  # e_shentsize
    count = int.from_bytes(head[60:62], order)  # e_shnum
    return 0 if offset == 0 else offset + size * count
