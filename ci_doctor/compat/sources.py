# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and reads what a person names as a package: a directory, PATH@REVISION, a wheel, an sdist, a release."""

import contextlib
import importlib.machinery
import io
import os
import re
import shutil
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
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ci_doctor.compat.world import LARGEST_SOURCE, CodeTree
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.git import GitObjects, ask_git, run_git
from ci_doctor.machine.packages import Package, find_provider, read_record
from ci_doctor.system.files.access import own_directory, write_atomically
from ci_doctor.system.processes.limited_runs import LimitedRuns, SeparateRun


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


# --- releases of packages, which pip lists and downloads ---


_LISTED: Final = re.compile(r"^Available versions: (.*)$", re.MULTILINE)
_QUIET: Final = ("--disable-pip-version-check", "--no-input")
# Engines are published for Linux. So is their source, whatever machine compares it.
_LINUX: Final = ("any", "manylinux2014_x86_64", "manylinux_2_28_x86_64", "manylinux_2_31_x86_64")
# An engine's wheel has half a gigabyte.
_DOWNLOAD_S: Final = 1800.0
_MOST_SOURCE: Final = 512 * 2**20


class Releases:
    """The releases of packages. Source that was read once stays in the folder `cache`."""

    def __init__(self, cache: Path, python: tuple[int, int]) -> None:
        self._cache = cache
        self._python = "{}.{}".format(*python)

    def versions(self, name: str) -> list[Version]:
        """What pip finds in the indexes and folders that it is configured with.

        Raises UsageError if they have no such package, InfraError if pip cannot say.
        """
        run = self._pip(
            *("index", "versions", "--pre", "--ignore-requires-python"),
            *("--python-version", self._python, "--only-binary", ":all:", name),
        )
        listed = _LISTED.search(run.stdout)
        if run.exit_code == 0 and listed is not None:
            return [each for each in map(_version, listed.group(1).split(", ")) if each is not None]
        if "No matching distribution" in run.stderr:
            raise UsageError(f"pip finds no version of {name}", hint="see `pip config list`")
        raise InfraError(f"pip: {run.last_words}", hint="see `pip config list`, and try again")

    def tree(self, name: str, version: Version) -> CodeTree:
        """The source of a release. Raises InfraError if pip cannot download a wheel of it."""
        label = f"{name} {version}"
        folder = self._cache / f"{canonicalize_name(name)}-{version}-{self._python}"
        kept = sorted(folder.glob("*.whl"))
        if not kept:
            with own_directory("compat") as directory:
                wheel = self._download(f"{name}=={version}", Path(directory))
                kept = [folder / wheel.name]
                try:
                    write_atomically(kept[0], _source_alone(wheel))
                except (OSError, zipfile.BadZipFile) as error:
                    raise InfraError(
                        f"{label}: {error}", hint="try again, or name a local file"
                    ) from error
        return wheel_tree(kept[0], label)

    def _download(self, requirement: str, directory: Path) -> Path:
        words = ("download", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python")
        target = ("--python-version", self._python, "-d", str(directory), requirement)
        run = self._pip(*words, *target)
        if "No matching distribution" in run.stderr:
            platforms = [word for each in _LINUX for word in ("--platform", each)]
            run = self._pip(*words, *platforms, *target)
        wheels = sorted(directory.glob("*.whl"))
        if run.exit_code or not wheels:
            raise InfraError(
                f"pip downloads no wheel of {requirement}: {run.last_words}",
                hint="name a local file in its place, or leave the version out (!=)",
            )
        return wheels[0]

    def _pip(self, *words: str) -> SeparateRun:
        """Run pip: ours, the one on PATH, or the one that uv brings. Raises InfraError without any."""
        # By the path alone: the finder of setuptools would give up its distutils.
        if importlib.machinery.PathFinder.find_spec("pip") is not None:
            command = [sys.executable, "-m", "pip"]
        elif shutil.which("pip") is not None:
            command = ["pip"]
        elif shutil.which("uvx") is not None:
            command = ["uvx", "--quiet", "pip"]
        else:
            raise InfraError("neither pip nor uv is at hand", hint="install one of them")
        return LimitedRuns().run(
            [*command, *words, *_QUIET], cwd=Path.cwd(), environ=os.environ, timeout_s=_DOWNLOAD_S
        )


def cache_directory() -> Path:
    """Where source that was read once is kept."""
    cache = os.environ.get("XDG_CACHE_HOME")
    root = Path(cache) if cache else Path(os.environ.get("HOME", "/")) / ".cache"
    return root / "ci-doctor" / "compat"


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _source_alone(wheel: Path) -> bytes:
    """A wheel with the Python source and the metadata of another; compiled files have no content.

    A module of their name is known to exist. Raises OSError if there is too much source, BadZipFile.
    """
    copied = io.BytesIO()
    with (
        zipfile.ZipFile(wheel) as archive,
        zipfile.ZipFile(copied, "w", zipfile.ZIP_DEFLATED) as slim,
    ):
        infos = [each for each in archive.infolist() if is_inside(each.filename)]
        wanted = [
            each
            for each in infos
            if each.filename.endswith((".py", ".pyi", ".dist-info/METADATA"))
            and each.file_size <= LARGEST_SOURCE
        ]
        if sum(each.file_size for each in wanted) > _MOST_SOURCE:
            raise OSError("the wheel has more than 512 MiB of source")
        for each in wanted:
            slim.writestr(each.filename, archive.read(each))
        for each in infos:
            if each.filename.endswith((".so", ".pyd")):
                slim.writestr(each.filename, b"")
    return copied.getvalue()
