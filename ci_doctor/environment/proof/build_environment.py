# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: an environment that holds a project's build requirements alone.

Requirements that are installed already are linked, which takes a tenth of a second; others are
installed with uv, or else with pip.
"""

import importlib.machinery
import importlib.metadata
import os
import shutil
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.environment.packaging_files import packages
from ci_doctor.environment.proof.installed import InstalledPackages, are_valid
from ci_doctor.environment.proof.unbuildable import Unbuildable
from ci_doctor.system import clock
from ci_doctor.system.processes.limited_run import run_limited

# Requirements of hundreds of megabytes: a proof by default does not download them.
_HEAVY: Final = frozenset(
    {"torch", "torchvision", "tensorflow", "jax", "jaxlib", "triton", "paddlepaddle", "cmake"}
)

# Without a network, pip would try for minutes.
_SHORT_WAITS: Final = ("--retries", "1", "--timeout", "10")


class BuildLimits(Struct, frozen=True, kw_only=True):
    """`may_install` allows an installer, which needs a network; `deadline` is by `clock.now()`.

    `may_build_wheels` allows a whole build, which may need a compiler and minutes.
    """

    may_install: bool
    may_build_wheels: bool
    deadline: float


class BuildEnvironment:
    """A virtual environment at `place`, filled as the requirements become known."""

    def __init__(self, place: Path, at_hand: InstalledPackages, limits: BuildLimits) -> None:
        self._place = place
        self._at_hand = at_hand
        self._limits = limits
        self._required: list[str] = []
        # Not pip, which alone would take seconds.
        venv.EnvBuilder(symlinks=True, with_pip=False).create(place)

    @property
    def deadline(self) -> float:
        """When the time for builds is over, by `clock.now()`."""
        return self._limits.deadline

    @property
    def may_build_wheels(self) -> bool:
        """Whether a whole wheel may be built for its metadata."""
        return self._limits.may_build_wheels

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self._place / "bin" / "python"

    def add(self, requires: Sequence[str], environ: Mapping[str, str]) -> None:
        """Put `requires` in; raises Unbuildable."""
        if not are_valid(requires):
            raise Unbuildable(f"a build requirement cannot be parsed: {', '.join(requires)}")
        new = [text for text in requires if text not in self._required]
        if not new:
            return
        self._required += new
        linked, missing = self._at_hand.satisfy(self._required)
        if missing is None:
            for each in linked:
                _link(each, self._site)
            return
        if not self._limits.may_install:
            raise Unbuildable(f"the build requirement {missing} is not installed here")
        self._install(environ)

    @property
    def _site(self) -> Path:
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self._place / "lib" / name / "site-packages"

    def _install(self, environ: Mapping[str, str]) -> None:
        for each in self._site.iterdir():
            if each.is_symlink():  # linked before it was known that something is missing
                each.unlink()
        command = [*_installer(self.python, environ), *self._required]
        left = self.deadline - clock.now()
        run = run_limited(command, timeout_s=left, cwd=self._place, environ=environ)
        if run.exit_code is None:
            raise Unbuildable("the build requirements were not installed within the time limit")
        if run.exit_code:
            raise Unbuildable(f"the build requirements cannot be installed: {run.last_line}")


def heavy_requirement(requires: Sequence[str]) -> str | None:
    """The first of `requires` that is a download of hundreds of megabytes; None if none is."""
    for name in sorted(packages(requires)):
        if name in _HEAVY or name.startswith("nvidia-"):
            return name
    return None


def _installer(python: Path, environ: Mapping[str, str]) -> list[str]:
    """A command that installs into `python`'s environment; raises Unbuildable."""
    uv = shutil.which("uv", path=environ.get("PATH"))
    if uv is not None:
        return [uv, "pip", "install", "--quiet", "--python", str(python)]
    # By the path alone: the finder of setuptools warns of a distutils that is loaded.
    if importlib.machinery.PathFinder.find_spec("pip") is None:
        raise Unbuildable("neither uv nor pip is at hand to install the build requirements")
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input", *_SHORT_WAITS]
    return [sys.executable, "-m", "pip", "--python", str(python), "install", *quiet]


def _link(distribution: importlib.metadata.Distribution, site: Path) -> None:
    """Show one installed package in `site`: a link for each of its files at the top."""
    for name in _top_names(distribution):
        source = Path(os.path.abspath(str(distribution.locate_file(name))))  # noqa: PTH100
        target = site / name
        if source.exists() and not target.exists():
            target.symlink_to(source)


def _top_names(distribution: importlib.metadata.Distribution) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for file in distribution.files or ():
        top = file.parts[0]
        # `../../bin/name` is a script, which no build requires by import.
        if top not in {"..", "/", "__pycache__"}:
            names[top] = None
    return tuple(names)
