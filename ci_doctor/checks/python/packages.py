# SPDX-License-Identifier: Apache-2.0
"""Reads which distributions are installed twice, in part, or for sources that are gone, and whether their files fit.

A compiled module must fit the interpreter by its wheel's tags (PEP 425, 600, 656), and by the ending of
its name.
"""

import ast
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ci_doctor.checks.check import CheckResult, Findings, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.environments import (
    InstalledEnvironment,
    SiteDirectory,
    SiteKind,
    environment_check,
    read_records,
)
from ci_doctor.checks.python.paths import compiled_modules, modules_in
from ci_doctor.machine.host import content_of
from ci_doctor.machine.interpreters import PythonState, absence, is_file
from ci_doctor.machine.packages import Package, RecordedFile
from ci_doctor.model.outcome import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount, size

if TYPE_CHECKING:
    from packaging.tags import Tag


DISTRIBUTION_TWICE: Final = Rule(
    id="doctor/distribution-twice",
    severity=Severity.ERROR,
    meaning="One distribution is installed twice. In one directory, its version and its files are those "
    "of either; in two directories, the first on sys.path hides the other.",
    remedy="Uninstall it until nothing is left, and install it once.",
)
INSTALLATION_INTERRUPTED: Final = Rule(
    id="doctor/installation-interrupted",
    severity=Severity.ERROR,
    meaning="An installation or removal was stopped in the middle: metadata are missing, or pip "
    "has left a folder whose name begins with a tilde.",
    remedy="Install the distribution again with `--force-reinstall`.",
)
EDITABLE_BROKEN: Final = Rule(
    id="doctor/editable-broken",
    severity=Severity.ERROR,
    meaning="An editable installation leads to a directory that does not exist or no longer holds the "
    "package, so that it cannot be imported.",
    remedy="Install it again from the checkout of this job.",
)

# These write a RECORD always; conda and Debian need not.
_RECORDING: Final = frozenset({"pip", "uv"})
_SHOWN: Final = 5
# What setuptools writes into the finder of an editable installation: module -> path.
_MAPPING = re.compile(r"^MAPPING\b[^=\n]*=\s*(\{.*?\})\s*$", re.MULTILINE | re.DOTALL)


@environment_check("python/duplicates", title="no distribution is installed twice")
def duplicates(environment: InstalledEnvironment, _context: CheckContext) -> Findings:
    """Of the copies in one directory an error; of those in two, what hides what."""
    by_name: dict[str, list[tuple[SiteDirectory, Package]]] = {}
    for site in environment.sites:
        for package in site.packages:
            # A source tree on sys.path has an egg-info, too: an editable installation shows it.
            is_copy = site.kind is SiteKind.PYTHONPATH and package.is_wheel
            if site.is_installed_to or is_copy:
                by_name.setdefault(package.name, []).append((site, package))
    for copies in by_name.values():
        yield from _of_copies(environment, copies)
    return f"{amount(len(by_name), 'distribution')} installed"


def _of_copies(
    environment: InstalledEnvironment, copies: Sequence[tuple[SiteDirectory, Package]]
) -> Iterator[Problem]:
    firsts = []
    for path, group in groupby(copies, lambda copy: copy[0].path):
        here = list(group)
        firsts.append(here[0])
        if len(here) > 1:
            yield _in_one_place(environment, path, [package for _, package in here])
    for other in firsts[1:]:
        if other[1].version != firsts[0][1].version:
            yield _hidden(*firsts[0], *other)


def _in_one_place(
    environment: InstalledEnvironment, path: Path, copies: Sequence[Package]
) -> Problem:
    versions = " and ".join(copy.version or "unknown" for copy in copies)
    folders = " ".join(shlex.quote(str(copy.folder)) for copy in copies)
    # Without a version the newest one of the index would come, and it may be a third one.
    latest = max(copies, key=_installed_at)
    return problem(
        DISTRIBUTION_TWICE,
        f"{copies[0].name} is installed twice in {path}, as {versions}",
        evidence=tuple(Evidence(file=str(copy.folder)) for copy in copies),
        remedy=ShellCommand(f"rm -r {folders} && {environment.reinstallation(latest).words}"),
    )


def _installed_at(copy: Package) -> float:
    try:
        return copy.folder.stat().st_mtime
    except OSError:
        return 0.0


def _hidden(
    site: SiteDirectory, first: Package, other_site: SiteDirectory, other: Package
) -> Problem:
    # To uninstall is right for one of the two only.
    remedy = f"uninstall {first.words} from {site.path}, if the job needs {other.words}"
    if site.kind is SiteKind.PYTHONPATH:
        remedy = f"leave {site.path} out of PYTHONPATH, if the job needs {other.words}"
    # An environment above another is made for that.
    return problem(
        DISTRIBUTION_TWICE,
        f"{first.words} in {site.path} hides {other.words} in {other_site.path} "
        f"({other_site.kind.value})",
        evidence=(Evidence(file=str(first.folder)), Evidence(file=str(other.folder))),
        severity=Severity.NOTE if site.kind is SiteKind.OWN else Severity.WARNING,
        remedy=remedy,
    )


@environment_check("python/installations", title="no installation was interrupted")
def installations(environment: InstalledEnvironment, _context: CheckContext) -> Findings:
    """What an interrupted installation or removal leaves in a site directory."""
    for site in environment.sites:
        # Folders that pip has renamed, to remove them at the end: it did not come to that.
        names = [name for name in site.names if name.startswith("~")]
        if site.is_installed_to and names:
            shown = ", ".join(names[:_SHOWN])
            paths = " ".join(shlex.quote(str(site.path / name)) for name in names)
            yield problem(
                INSTALLATION_INTERRUPTED,
                f"pip was stopped while it replaced packages in {site.path}, and left {shown}",
                evidence=tuple(Evidence(file=str(site.path / name)) for name in names[:_SHOWN]),
                remedy=ShellCommand(f"rm -r {paths}"),
                severity=Severity.WARNING,
            )
    private = []
    for package in environment.installed:
        if package.is_private:
            private.append(package.name)
            continue
        missing = _missing(package)
        if missing is not None:
            folder = shlex.quote(str(package.folder))
            install = environment.reinstallation(package).words
            yield problem(
                INSTALLATION_INTERRUPTED,
                f"{package.words} is not completely installed: {missing} in {package.folder}",
                evidence=(Evidence(file=str(package.folder)),),
                remedy=ShellCommand(f"rm -r {folder} && {install}"),
            )
    count = amount(len(environment.installed), "distribution")
    unknown = f"the metadata of {', '.join(private)} cannot be read" if private else None
    return CheckResult(summary=f"the metadata of {count} were read", unknown=unknown)


def _missing(package: Package) -> str | None:
    """What its folder lacks, as a clause; None if nothing."""
    if not package.has_metadata:
        file = "METADATA" if package.is_wheel else "PKG-INFO"
        path = package.folder / file
        if not package.is_wheel and is_file(package.folder):
            return "its egg-info names no version"
        return f"{file} names no name and version" if is_file(path) else f"there is no {file}"
    if not package.is_wheel or package.installer not in _RECORDING:
        return None
    record = package.record
    if not is_file(record):
        return "there is no RECORD"
    if record.stat().st_size == 0:
        return "RECORD is empty"
    return None


@environment_check("python/editable", title="editable installations lead to their sources")
def editable(environment: InstalledEnvironment, _context: CheckContext) -> Findings:
    """Editable installations, finders, `.pth` files and links that lead nowhere."""
    missing: list[Path] = []
    count = 0
    for package in environment.installed:
        source = package.origin.source
        if source is None or not package.origin.is_editable:
            continue
        count += 1
        reason = absence(source)
        if reason is not None:
            missing.append(source)
            yield problem(
                EDITABLE_BROKEN,
                f"{package.words} is an editable installation of {source}, which {reason}",
                evidence=(Evidence(file=str(package.origin_file)),),
                remedy=ShellCommand(environment.pip_line("uninstall", [package.name])),
            )
    for site in environment.sites:
        if site.is_installed_to:
            yield from _dead_links(site, missing)
    return f"{amount(count, 'editable installation')} by direct_url.json"


def _dead_links(site: SiteDirectory, missing: list[Path]) -> Iterator[Problem]:
    """Of finders, `.pth` files and links; what lies under `missing` has its problem."""
    for name in site.names:
        path = site.path / name
        for target, severity in _targets(path):
            reason = absence(target)
            # A finder maps a module of one file to its path without the ending.
            if reason is None or absence(f"{target}.py") is None:
                continue
            if not any(target.is_relative_to(source) for source in missing):
                yield problem(
                    EDITABLE_BROKEN,
                    f"{path} leads to {target}, which {reason}",
                    evidence=(Evidence(file=str(path)),),
                    severity=severity,
                )


def _targets(path: Path) -> Iterator[tuple[Path, Severity]]:
    """The paths that a file in a site directory leads to."""
    name = path.name
    if name.endswith(".egg-link"):
        line = content_of(path).partition("\n")[0].strip()
        if line:
            yield Path(line), Severity.ERROR
    elif name.startswith("__editable__") and name.endswith("_finder.py"):
        for target in _mapped(path):
            yield target, Severity.ERROR
    elif name.endswith(".pth"):
        # Of a file that no installer has named, one cannot tell whether anything needs it.
        is_editable = name.startswith("__editable__") or name == "easy-install.pth"
        severity = Severity.ERROR if is_editable else Severity.WARNING
        # The lines that name a directory (site.py).
        for text in map(str.rstrip, content_of(path).splitlines()):
            if text and not text.startswith(("#", "import ", "import\t")):
                yield path.parent / text, severity


def _mapped(finder: Path) -> Iterator[Path]:
    match = _MAPPING.search(content_of(finder))
    if match is None:
        return
    try:
        mapping = ast.literal_eval(match[1])
    except (ValueError, SyntaxError):
        return
    yield from (Path(str(target)) for target in mapping.values())


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
_FILES_SHOWN: Final = 4
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
    return ", ".join(file.path for file in files[:_FILES_SHOWN])


def _evidence(package: Package, files: Sequence[RecordedFile]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            file=str(package.site / file.path),
            excerpt=None if file.size is None else f"RECORD: {size(file.size)}",
        )
        for file in files[:_FILES_SHOWN]
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
    # A wheel of the stable interface is often renamed after its build: pip has judged by the name.
    judged = tags
    if any(path.endswith(".abi3.so") for path in libraries):
        judged = [f"py3-none-{tag.rpartition('-')[2]}" for tag in tags]
    if fitting is not None and is_misfit(judged, fitting):
        yield (
            f"its wheel is for {tags[0]}, and this is {state.machine} with {state.glibc}",
            (Evidence(file=str(package.folder / "WHEEL")),),
        )
    strange = misnamed(libraries, state)
    if strange:
        yield (
            f"it has {amount(len(strange), 'module')} for another Python",
            tuple(Evidence(file=str(package.site / path)) for path in strange[:_FILES_SHOWN]),
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
            evidence=tuple(Evidence(file=path) for path in strange[:_FILES_SHOWN]),
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
