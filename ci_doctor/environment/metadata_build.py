# SPDX-License-Identifier: Apache-2.0
"""Acts on files, git and processes: builds a project's metadata with its own backend, in a copy of its checkout."""

import email.parser
import importlib.machinery
import importlib.metadata
import os
import shutil
import sys
import tomllib
import venv
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pyproject_hooks import BackendUnavailable, BuildBackendHookCaller, HookMissing

from ci_doctor.environment.project import packages
from ci_doctor.environment.tags import Described, exclusions, is_release, list_tags, may_rest_on
from ci_doctor.environment.versions import with_clone_limits
from ci_doctor.git import ask_git, run_git
from ci_doctor.system import clock
from ci_doctor.system.files.access import make_directory
from ci_doctor.system.processes.limited_runs import run_limited

# Acts on files and git: copies a project's checkout to a place where a build may write.
#
# The copy shares the objects of the repository (gitrepository-layout(5), objects/info/alternates),
# and has its index, its branch and the wanted tags. Nothing is written to the original.

# A repository with models or data in it would take minutes and fill the disk.
_MOST_BYTES = 1 << 30
_NEVER_COPIED = shutil.ignore_patterns(".git", ".venv", "venv", "node_modules", "__pycache__")


class Unbuildable(Exception):  # noqa: N818 - not an error of ci-doctor: it ends as a finding
    """Raised where the build itself cannot be tried; `reason` is a clause for a report."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def copy_checkout(project: Path, to: Path, *, without_tags: Collection[str] = ()) -> Path:
    """Copy the checkout around `project` to the new directory `to`; return the project there.

    Tags in `without_tags` are left out. Raises Unbuildable.
    """
    top = ask_git(project, "rev-parse", "--show-toplevel")
    try:
        if top is None:
            shutil.copytree(project, to, symlinks=True, ignore=_NEVER_COPIED)
            return to
        _copy_files(Path(top), to)
        _copy_repository(Path(top), to, without_tags)
    except (OSError, shutil.Error) as error:
        raise Unbuildable(f"the checkout cannot be copied: {error}") from error
    return to / project.resolve().relative_to(Path(top).resolve())


def nearest_tag(project: Path) -> str | None:
    """The tag that a plain `git describe` picks; None if there is none."""
    return ask_git(project, "describe", "--tags", "--abbrev=0")


def disturbing_tags(project: Path) -> tuple[str, ...]:
    """The tags reachable from HEAD that are no releases, newest first."""
    reachable = list_tags(partial(ask_git, project), reachable=True)
    return tuple(tag for tag in reachable if not is_release(tag))


def describe(project: Path, version: str) -> Described:
    """The checkout of a project whose build computes `version` without the disturbing tags.

    The tool may read tags of some names alone, so `tag` is the nearest one that `version` may rest
    on. If it rests on none, that is the nearest release, which then says nothing about the history
    that the tool has read.
    """
    reachable = list_tags(partial(ask_git, project), reachable=True)
    disturbing = tuple(tag for tag in reachable if not is_release(tag))
    good = [tag for tag in reachable if is_release(tag)]
    resting = [tag for tag in good if may_rest_on(version, tag)]
    # Names need no escaping: git forbids glob characters in them (git-check-ref-format(1)).
    options = [f"--match={name}" for name in resting]
    if not resting:
        options = [f"--exclude={pattern}" for pattern in exclusions(disturbing, good)]
    answer = ask_git(project, "describe", "--tags", "--long", *options)
    tag, distance, _ = answer.rsplit("-", 2) if answer else (None, None, None)
    nearest = nearest_tag(project)
    head = ask_git(project, "rev-parse", "--verify", "--quiet", "HEAD")
    described = Described(
        version=version,
        repository=ask_git(project, "rev-parse", "--show-toplevel"),
        tag=tag,
        distance=int(distance) if distance else None,
        node=f"g{head}" if head else None,
        shallow=ask_git(project, "rev-parse", "--is-shallow-repository") == "true",
        unparsable=disturbing,
        breaks_on=nearest if nearest in disturbing else None,
    )
    return with_clone_limits(project, described, rests_on_tag=bool(resting))


def _copy_files(root: Path, to: Path) -> None:
    listed = ask_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard") or ""
    to.mkdir(parents=True)
    left = _MOST_BYTES
    for name in filter(None, dict.fromkeys(listed.split("\0"))):
        source = root / name
        target = to / name
        if not source.is_symlink() and not source.exists():
            continue  # deleted, and not yet committed
        left -= source.lstat().st_size
        if left < 0:
            raise Unbuildable(f"the checkout is too large to copy (over {_MOST_BYTES >> 20} MiB)")
        make_directory(target.parent)
        if source.is_dir() and not source.is_symlink():  # a submodule
            shutil.copytree(source, target, symlinks=True, ignore=_NEVER_COPIED)
        else:
            shutil.copy2(source, target, follow_symlinks=False)


def _copy_repository(root: Path, to: Path, without_tags: Collection[str]) -> None:
    _demand(to, "init", "--quiet", "--template=")
    place = to / ".git"
    objects = _path_in_repository(root, "objects")
    make_directory(place / "objects" / "info")
    (place / "objects" / "info" / "alternates").write_text(f"{objects}\n")
    for name in ("shallow", "index"):
        source = _path_in_repository(root, name)
        if source.is_file():
            shutil.copy2(source, place / name)
    head = ask_git(root, "rev-parse", "--verify", "HEAD")
    if head is None:  # nothing is committed yet
        return
    branch = ask_git(root, "symbolic-ref", "--quiet", "HEAD")
    if branch is not None:
        _demand(to, "symbolic-ref", "HEAD", branch)
    _demand(to, "update-ref", *([] if branch else ["--no-deref"]), "HEAD", head)
    tags = ask_git(root, "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags") or ""
    dropped = {f"refs/tags/{name}" for name in without_tags}
    parts = (line.partition(" ") for line in tags.splitlines())
    created = [
        f"create {reference} {object_name}\n"
        for object_name, _, reference in parts
        if reference not in dropped
    ]
    _demand(to, "update-ref", "--stdin", text="".join(created))
    # The copied index has the stat data of the original files.
    ask_git(to, "update-index", "-q", "--refresh")


def _path_in_repository(root: Path, name: str) -> Path:
    return (root / (ask_git(root, "rev-parse", "--git-path", name) or name)).resolve()


def _demand(directory: Path, *arguments: str, text: str = "") -> None:
    completed = run_git(directory, arguments, text=text)
    if completed.returncode:
        raise Unbuildable(f"git {arguments[0]}: {completed.stderr.strip()}")


# Acts on files and processes: builds a project's metadata with its own backend (PEP 517), in isolation.
#
# Build requirements that are installed already are linked, which takes a tenth of a second; others are
# installed with uv, or else with pip.

# Requirements of hundreds of megabytes: a proof by default does not download them.
_HEAVY: Final = frozenset(
    {"torch", "torchvision", "tensorflow", "jax", "jaxlib", "triton", "paddlepaddle", "cmake"}
)
# Without a network, pip would try for minutes.
_SHORT_WAITS: Final = ("--retries", "1", "--timeout", "10")
# setuptools builds wheels itself since 70.1, and many projects still name `wheel`.
_OPTIONAL = "wheel"
_BUILDS_WHEELS = SpecifierSet(">=70.1")
# What a build has without a `[build-system]` table (PEP 517, "Source trees").
_LEGACY: Mapping[str, Any] = {
    "requires": ["setuptools >= 40.8.0"],
    "build-backend": "setuptools.build_meta:__legacy__",
}
_PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
Found = importlib.metadata.Distribution


class BuiltMetadata(Struct, frozen=True, kw_only=True):
    """`version` as the metadata states it; None if the build failed, and `failure` says how."""

    version: str | None = None
    failure: str | None = None


class _HookFailed(Exception):  # noqa: N818 - an answer of the backend
    """A hook of the backend ended with an error; its text is the last line that it printed."""


class InstalledPackages:
    """The packages of this interpreter, and of other ones with the same Python version."""

    def __init__(self, others: Sequence[Path] = ()) -> None:
        self._paths = [str(path) for path in others] + sys.path

    def satisfy(self, requires: Iterable[str]) -> tuple[tuple[Found, ...], str | None]:
        """The packages that `requires` need, with all that these need; or what is missing first.

        Of several versions it is the newest, as an installer would choose.
        """
        needed: dict[str, Found] = {}
        bounds: dict[str, SpecifierSet] = {}
        waiting = [(text, "") for text in requires]
        visited: set[tuple[str, str]] = set()
        missing_wheel: str | None = None
        while waiting:
            text, extra = waiting.pop()
            requirement = Requirement(text)
            holds = not requirement.marker or requirement.marker.evaluate({"extra": extra})
            if not holds or (text, extra) in visited:
                continue
            visited.add((text, extra))
            name = canonicalize_name(requirement.name)
            bounds[name] = bounds.get(name, SpecifierSet()) & requirement.specifier
            newest = None if requirement.url else self._newest(name, bounds[name])
            if newest is None and name == _OPTIONAL:
                missing_wheel = text
                continue
            if newest is None:
                return (), text
            needed[name] = newest
            for dependency in newest.requires or ():
                waiting += [(dependency, each) for each in ("", *requirement.extras)]
        setuptools = needed.get("setuptools")
        if missing_wheel is not None and not (setuptools and _is_right(setuptools, _BUILDS_WHEELS)):
            return (), missing_wheel
        return tuple(needed.values()), None

    def _newest(self, name: str, bounds: SpecifierSet) -> Found | None:
        right = [each for each in self._all.get(name, ()) if _is_right(each, bounds)]
        return max(right, key=lambda each: Version(each.version), default=None)

    @cached_property
    def _all(self) -> dict[str, list[Found]]:
        by_name: dict[str, list[Found]] = {}
        for each in importlib.metadata.distributions(path=self._paths):
            # A damaged one has no name.
            name = each.metadata["Name"] if each.metadata else None
            if name:
                by_name.setdefault(canonicalize_name(name), []).append(each)
        return by_name


def _is_right(distribution: Found, bounds: SpecifierSet) -> bool:
    try:
        return bounds.contains(distribution.version, prereleases=True)
    except InvalidVersion:
        return False


def site_directory(python: Path) -> Path | None:
    """Where the interpreter of a virtual environment keeps packages.

    None if its Python is not of our version: compiled packages would not load.
    """
    directory = python.parent.parent / "lib" / _PYTHON / "site-packages"
    return directory if directory.is_dir() else None


class Bench:
    """One build environment for `project` under the empty directory `place`, and builds in fresh copies.

    `deadline` is by `clock.now()`. `is_demanded`: a user asked for a proof, so that requirements may be
    installed, which needs a network, and a whole wheel built, which may need a compiler and minutes.
    `is_needed`: nothing else tells the version, so that small requirements may be installed.
    """

    def __init__(
        self,
        project: Path,
        place: Path,
        at_hand: InstalledPackages,
        *,
        deadline: float,
        is_demanded: bool,
        is_needed: bool,
    ) -> None:
        self._project = project
        self._place = place
        self._at_hand = at_hand
        self._deadline = deadline
        self._is_demanded = is_demanded
        required = packages(build_system(project).get("requires", []))
        is_heavy = any(name in _HEAVY or name.startswith("nvidia-") for name in required)
        self._may_install = is_demanded or (is_needed and not is_heavy)
        self._required: list[str] = []
        self._builds = 0
        self._python = place / "environment" / "bin" / "python"
        self._site = place / "environment" / "lib" / _PYTHON / "site-packages"
        # Not pip, which alone would take seconds.
        venv.EnvBuilder(symlinks=True, with_pip=False).create(place / "environment")

    def build(
        self, environ: Mapping[str, str], without_tags: Collection[str] = ()
    ) -> BuiltMetadata:
        """Build the metadata with `environ`, and all tags but `without_tags`.

        A backend without a hook for metadata builds a whole wheel, if a proof is demanded. Raises
        Unbuildable if the requirements cannot be had, or if the time is over.
        """
        self._builds += 1
        place = self._place / str(self._builds)
        place.mkdir()
        project = copy_checkout(self._project, place / "checkout", without_tags=without_tags)
        scratch = place / "metadata"
        scratch.mkdir()
        environ = _build_environ(environ, self._python)

        def run(
            cmd: Sequence[str],
            cwd: str | None = None,
            extra_environ: Mapping[str, str] | None = None,
        ) -> None:
            variables = {**environ, **(extra_environ or {})}
            left = self._deadline - clock.now()
            ran = run_limited(
                cmd, timeout_s=left, cwd=Path(cwd) if cwd else project, environ=variables
            )
            if ran.exit_code is None:
                raise Unbuildable("the build of the metadata was not over within the time limit")
            if ran.exit_code:
                raise _HookFailed(_telling_line(ran.stdout))

        system = build_system(project)
        caller = BuildBackendHookCaller(
            str(project),
            system["build-backend"],
            backend_path=system.get("backend-path"),
            runner=run,
            python_executable=str(self._python),
        )
        try:
            self._add(system.get("requires", []), environ)
            # pyproject_hooks repeats the warnings of the backend, which are no business of a report.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._add(caller.get_requires_for_build_wheel(), environ)
                name = caller.prepare_metadata_for_build_wheel(
                    str(scratch), _allow_fallback=self._is_demanded
                )
        except _HookFailed as error:
            return BuiltMetadata(failure=str(error))
        except HookMissing as error:
            raise Unbuildable(
                "the build backend gives metadata with a whole wheel alone"
            ) from error
        except (BackendUnavailable, OSError, ValueError) as error:
            raise Unbuildable(f"the build backend cannot be called: {error}") from error
        return _built(scratch / str(name) / "METADATA")

    def _add(self, requires: Sequence[str], environ: Mapping[str, str]) -> None:
        """Put `requires` into the environment.

        Raises Unbuildable, and _HookFailed if they are no list of texts.
        """
        if not _are_texts(requires):
            raise _HookFailed("the backend names its requirements in no list of texts")
        new = [text for text in requires if text not in self._required]
        if not new:
            return
        self._required += new
        try:
            linked, missing = self._at_hand.satisfy(self._required)
        except InvalidRequirement as error:
            listed = ", ".join(requires)
            raise Unbuildable(f"a build requirement cannot be parsed: {listed}") from error
        if missing is None:
            for each in linked:
                _link(each, self._site)
            return
        if not self._may_install:
            raise Unbuildable(f"the build requirement {missing} is not installed here")
        self._install(environ)

    def _install(self, environ: Mapping[str, str]) -> None:
        for path in self._site.iterdir():
            if path.is_symlink():  # linked before it was known that something is missing
                path.unlink()
        command = [*_installer(self._python, environ), *self._required]
        left = self._deadline - clock.now()
        ran = run_limited(command, timeout_s=left, cwd=self._place, environ=environ)
        if ran.exit_code is None:
            raise Unbuildable("the build requirements were not installed within the time limit")
        if ran.exit_code:
            raise Unbuildable(f"the build requirements cannot be installed: {ran.last_words}")


def _built(metadata: Path) -> BuiltMetadata:
    try:
        text = metadata.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return BuiltMetadata(failure="the backend has written no METADATA where it says")
    version = email.parser.HeaderParser().parsestr(text)["Version"]
    failure = "the METADATA of the backend names no version" if version is None else None
    return BuiltMetadata(version=version, failure=failure)


def build_system(project: Path) -> Mapping[str, Any]:
    """The `[build-system]` table of the project, or what stands for it.

    Raises Unbuildable if its values are not of the types that PEP 518 and PEP 517 name.
    """
    try:
        pyproject = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return _LEGACY
    table = pyproject.get("build-system")
    if not isinstance(table, dict):
        return _LEGACY
    system = {**table, "build-backend": table.get("build-backend", _LEGACY["build-backend"])}
    lists = (system.get("requires", []), system.get("backend-path", []))
    if not all(map(_are_texts, lists)) or not isinstance(system["build-backend"], str):
        raise Unbuildable("[build-system] of pyproject.toml has a value of a wrong type")
    return system


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


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


def _link(distribution: Found, site: Path) -> None:
    """Show one installed package in `site`: a link for each of its files at the top."""
    # `../../bin/name` is a script, which no build requires by import.
    tops = {file.parts[0] for file in distribution.files or ()} - {"..", "/", "__pycache__"}
    for name in sorted(tops):
        source = Path(os.path.abspath(str(distribution.locate_file(name))))  # noqa: PTH100
        target = site / name
        if source.exists() and not target.exists():
            target.symlink_to(source)


def _build_environ(environ: Mapping[str, str], python: Path) -> dict[str, str]:
    """The variables of a build: none that changes how Python starts or where git looks."""
    changing = ("PYTHON", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX")
    return {
        **{
            name: value
            for name, value in environ.items()
            if not name.startswith(changing) and name != "VIRTUAL_ENV"
        },
        # Scripts of the requirements, such as ninja, are looked up there.
        "PATH": f"{python.parent}:{environ.get('PATH', '')}",
    }


def _telling_line(output: str) -> str:
    """The last line of a traceback, or of what was printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines:
        return "the backend printed nothing"
    for line in reversed(lines):
        head = line.partition(":")[0]
        if head.endswith(("Error", "Exception", "Version")) and " " not in head:
            return line
    return lines[-1]
