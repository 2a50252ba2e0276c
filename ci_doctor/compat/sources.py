# SPDX-License-Identifier: Apache-2.0
"""Reads what a person names as a package: a directory, PATH@REVISION, a wheel, an sdist, a name."""

import contextlib
import os
import re
import sys
import tarfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Final

from msgspec import structs

from ci_doctor.compat.world import LARGEST_SOURCE, CodeTree
from ci_doctor.errors import UsageError
from ci_doctor.git import GitObjects, ask_git, run_git
from ci_doctor.machine.packages import Package, find_provider, read_record


def _described(tree: CodeTree, metadata: str) -> CodeTree:
    """The tree with what its file `metadata` says of itself, if it has that file."""
    if metadata not in tree.names:
        return tree
    headers = BytesHeaderParser().parsebytes(tree.read(metadata))
    return structs.replace(tree, distribution=headers["Name"], version=headers["Version"])


def wheel_tree(file: Path, label: str) -> CodeTree:
    """The members of a wheel. Raises UsageError if it is no zip archive."""
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise UsageError(
            f"{label} cannot be read: {error}", hint="name a complete wheel"
        ) from error
    sizes = {info.filename: info.file_size for info in archive.infolist()}

    def read(name: str) -> bytes:
        return _member(archive, name, sizes)

    names = frozenset(filter(is_inside, sizes))
    metadata = [each for each in names if _METADATA.fullmatch(each)]
    return _described(CodeTree(label=label, names=names, read=read), "".join(metadata[:1]))


def is_inside(name: str) -> bool:
    """Whether a member's name stays below the archive's own root."""
    return (
        bool(name) and not name.startswith("/") and ".." not in name.split("/") and "\\" not in name
    )


def _member(archive: zipfile.ZipFile, name: str, sizes: dict[str, int]) -> bytes:
    # A zip bomb says its size, or ends at it: zipfile never gives more than the size in its directory.
    if sizes.get(name, 0) > LARGEST_SOURCE:
        raise OSError(f"{name} is larger than 4 MiB")
    try:
        with archive.open(name) as member:
            return member.read(LARGEST_SOURCE + 1)
    except (
        KeyError,
        zipfile.BadZipFile,
        zlib.error,
        RuntimeError,
        NotImplementedError,
        EOFError,
    ) as error:
        raise OSError(f"{name} cannot be read: {error}") from error


_METADATA: Final = re.compile(r"[^/]+\.dist-info/METADATA")
# vLLM's sdist has 30 MB in 5,000 files. Beyond these limits an archive is no package.
_MOST_MEMBERS: Final = 200_000
_MOST_BYTES: Final = 2 * 2**30
_KEPT: Final = (
    ".py",
    "/PKG-INFO",
    "/pyproject.toml",
    "/setup.py",
    "/CMakeLists.txt",
    "/MANIFEST.in",
)


def sdist_tree(path: Path, label: str) -> CodeTree:
    """The source in an sdist. Raises UsageError if it is no tar archive, or larger than the limits.

    Links, devices and names that lead out are skipped: nothing is ever written.
    """
    try:
        with tarfile.open(path, "r:*") as archive:
            files = _files(archive, label)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise UsageError(
            f"{label} cannot be read: {error}", hint="name a complete sdist"
        ) from error

    def read(name: str) -> bytes:
        if name not in files:
            raise OSError(f"{name} is not in {label}")
        return files[name]

    tree = CodeTree(label=label, names=frozenset(files), read=read, is_built=False)
    return _described(tree, "PKG-INFO")


def _files(archive: tarfile.TarFile, label: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    for count, member in enumerate(archive):
        total += member.size
        if count > _MOST_MEMBERS or total > _MOST_BYTES:
            raise UsageError(
                f"{label} has more than {_MOST_MEMBERS} members or 2 GiB",
                hint="name a smaller archive, or the package's directory",
            )
        name = member.name.removeprefix("./")
        if not member.isreg() or not is_inside(name) or member.size > LARGEST_SOURCE:
            continue
        if not name.endswith(_KEPT):
            continue
        content = archive.extractfile(member)
        if content is not None:
            # Below the one directory `name-version/` that every sdist has.
            files[name.partition("/")[2]] = content.read()
    return files


# Never a part of the package itself.
_LEFT_OUT: Final = frozenset(
    {"__pycache__", "node_modules", "build", "dist", "site-packages", "venv", "third_party"}
)
_SUFFIXES: Final = (".py", ".so", ".pyx")
_VERSION_LINE: Final = re.compile(
    r"""^__version__\s*(?::\s*str\s*)?=\s*["']([^"']+)["']""", re.MULTILINE
)
_MOST_FILES: Final = 200_000


def directory_tree(path: Path, label: str) -> CodeTree:
    """The source below `path`. Raises UsageError if it has no Python file."""
    top = path.resolve()
    inside = ""
    if (top / "__init__.py").is_file():
        # The package itself was named, and not the directory that holds it.
        inside = f"{top.name}/"
        top = top.parent
    names = frozenset(_names(top, inside))
    if not any(name.endswith(".py") for name in names):
        raise UsageError(f"{label} has no Python file", hint="name the directory of a package")

    def read(name: str) -> bytes:
        return read_inside(top, name)

    tree = CodeTree(label=label, names=names, read=read, is_built=False)
    if "PKG-INFO" in names:
        return _described(tree, "PKG-INFO")
    project: dict[str, str] = {}
    with contextlib.suppress(tomllib.TOMLDecodeError, UnicodeDecodeError, OSError):
        project = tomllib.loads(read("pyproject.toml").decode()).get("project", {})
    version = project.get("version") or _literal_version(names, read)
    return structs.replace(tree, distribution=project.get("name"), version=version)


def _names(top: Path, inside: str) -> Iterator[str]:
    count = 0
    for folder, below, files in os.walk(top / inside if inside else top):
        below[:] = sorted(
            each
            for each in below
            if not each.startswith(".")
            and each not in _LEFT_OUT
            and not Path(folder, each).is_symlink()
        )
        relative = Path(folder).relative_to(top).as_posix()
        prefix = "" if relative == "." else f"{relative}/"
        for name in files:
            count += 1
            if count > _MOST_FILES:
                raise UsageError(
                    f"{top} has more than {_MOST_FILES} files", hint="name the package's directory"
                )
            if name.endswith(_SUFFIXES) or (not prefix and not name.startswith(".git/")):
                yield f"{prefix}{name}"


def read_inside(top: Path, name: str) -> bytes:
    """The content of a file below `top`. Raises OSError if it leads out, is no file or too large."""
    path = top / name
    real = path.resolve()
    if not real.is_relative_to(top):
        raise OSError(f"{name} is a link that leads out of the directory")
    # A device or a pipe would block, and a file of any size would be read whole.
    if not real.is_file() or real.stat().st_size > LARGEST_SOURCE:
        raise OSError(f"{name} is no file of at most 4 MiB")
    return real.read_bytes()


def _literal_version(names: frozenset[str], read: Callable[[str], bytes]) -> str | None:
    """The version that a package's `__init__.py`, `version.py` or `_version.py` states."""
    places = {"__init__.py", "version.py", "_version.py", "__version__.py"}
    versions = set()
    for name in names:
        if name.count("/") <= 2 and name.rpartition("/")[2] in places:
            with contextlib.suppress(OSError):
                text = read(name).decode("utf-8", "replace")
                versions.update(_VERSION_LINE.findall(text)[:1])
    return versions.pop() if len(versions) == 1 else None


_REGULAR = ("100644 ", "100755 ")


def revision_tree(directory: Path, revision: str, label: str) -> CodeTree:
    """The files of `revision` below `directory`. Raises UsageError if git does not know it."""
    commit = ask_git(
        directory, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}"
    )
    if commit is None:
        raise UsageError(
            f"{directory} has no revision {revision}",
            hint="fetch it, or see `git rev-parse`",
        )
    root = Path(ask_git(directory, "rev-parse", "--show-toplevel") or directory).resolve()
    below = directory.resolve().relative_to(root)
    spec = f"{commit}:{below.as_posix()}" if below.parts else commit
    listed = run_git(root, ("ls-tree", "-r", "-z", "--end-of-options", spec))
    if listed.returncode:
        raise UsageError(f"git cannot list {spec}: {listed.stderr.strip()}")
    # The regular files by name, with their object ids.
    entries = [entry.partition("\t") for entry in listed.stdout.split("\0")]
    objects = {
        name: head.split()[2] for head, tab, name in entries if tab and head.startswith(_REGULAR)
    }
    if below.parts and "__init__.py" in objects:
        objects = {f"{below.name}/{name}": each for name, each in objects.items()}
    contents = GitObjects(root)

    def read(name: str) -> bytes:
        if name not in objects:
            raise OSError(f"{name} is not in {label}")
        return contents.blob(objects[name], LARGEST_SOURCE)

    tree = _described(
        CodeTree(label=label, names=frozenset(objects), read=read, is_built=False), "PKG-INFO"
    )
    tag = ask_git(root, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", commit)
    tagged = None if tag is None else tag.removeprefix("v")
    return structs.replace(tree, version=tree.version or tagged)


def installed_tree(name: str, python: Path | None) -> CodeTree:
    """The files of the distribution `name`, or that installs a package `name`, beside `python` or here.

    Raises UsageError if it is not installed there.
    """
    package = find_provider(name, site_directories(python))
    tree = _tree(package) if package is not None and package.is_wheel else None
    if tree is not None:
        return tree
    if package is not None:
        raise UsageError(
            f"{package.name} has no Python file in {package.site}",
            hint="if it is an editable installation, name its checkout",
        )
    where = "this Python" if python is None else str(python)
    raise UsageError(
        f"{name} is no file or directory, and no package of {where}",
        hint="name a path, a wheel, an sdist, PATH@REVISION, or a package and --python",
    )


def site_directories(python: Path | None) -> list[Path]:
    """Where the interpreter keeps packages, by the layout of its prefix."""
    if python is None:
        return [Path(each) for each in sys.path if Path(each).is_dir()]
    # The path as it was typed: a virtual environment's python is a link to another one.
    prefix = python if python.is_dir() else python.parent.parent
    patterns = (
        "lib*/python3*/site-packages",
        "lib*/python3*/dist-packages",
        "lib/python3/dist-packages",
    )
    return [site for pattern in patterns for site in sorted(prefix.glob(pattern))]


def _tree(package: Package) -> CodeTree | None:
    """Its files; None if none is Python."""
    site = package.site
    recorded = (file.path for file in read_record(package.folder) if file.is_in_site)
    code = (path for path in recorded if path.endswith((".py", ".so")))
    names = frozenset(path for path in code if (site / path).is_file())
    metadata = f"{package.folder.name}/METADATA"

    def read(name: str) -> bytes:
        return read_inside(site.resolve(), name)

    if not any(name.endswith(".py") for name in names):
        return None
    tree = _described(CodeTree(label="", names=names | {metadata}, read=read), metadata)
    return structs.replace(tree, label=f"{tree.distribution} {tree.version}", names=names)


_TARS: Final = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")
_ZIPS: Final = (".whl", ".zip", ".egg")


def open_source(text: str, python: Path | None = None) -> CodeTree:
    """The code that `text` names. Raises UsageError if there is none."""
    path = Path(text)
    if path.is_dir():
        return directory_tree(path, text)
    if path.is_file():
        if path.name.endswith(_TARS):
            return sdist_tree(path, text)
        if path.name.endswith(_ZIPS):
            return wheel_tree(path, text)
        raise UsageError(f"{text} is no wheel and no sdist", hint="name a directory or an archive")
    place, at, revision = text.rpartition("@")
    if at and revision and Path(place or ".").is_dir():
        return revision_tree(Path(place or "."), revision, text)
    return installed_tree(text, python)
