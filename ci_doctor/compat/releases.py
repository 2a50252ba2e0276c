# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and on the user's cache: releases of packages, which pip lists and downloads."""

import importlib.util
import io
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ci_doctor.compat.sources import is_inside, wheel_tree
from ci_doctor.compat.world import LARGEST_SOURCE, CodeTree
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.system.files.own_directory import own_directory
from ci_doctor.system.files.writing import write_atomically
from ci_doctor.system.processes.limited_runs import LimitedRuns, SeparateRun

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
        if importlib.util.find_spec("pip") is not None:
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
