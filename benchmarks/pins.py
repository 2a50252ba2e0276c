# SPDX-License-Identifier: Apache-2.0
"""Whether `ci-doctor setup-env` pins the versions of real projects, or refuses where it cannot.

    python benchmarks/pins.py                     all packages: downloads their sdists, builds each a dozen times
    python benchmarks/pins.py pluggy exceptiongroup
    python benchmarks/pins.py --sdists DIR        sdists that are there already are not downloaded
    python benchmarks/pins.py --record            also appends the table to benchmarks/RESULTS.md

Each sdist becomes a repository with a release tag, and after it a tag that is no version, in two variants; `release` is
on HEAD in both. Its metadata is built in isolation, by the backend that it requires: without the bad tags (`reference`),
with them and no pin (`bare`), and with them under the exports of `setup-env` (`pinned`). `right`: the pinned version is the reference. `refused`: setup-env
ends with an error, and the bare build is broken indeed. `unharmed`: no pin, and the bare build has the right version.
Failures are `BROKEN` (setup-env passes, the build is wrong) and `ALARM` (setup-env refuses a build that is right).
The exit status is 1 if there is one. `unbuildable`: the reference cannot be built on this machine, which proves nothing.
"""

import argparse
import collections
import concurrent.futures
import email.parser
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import InvalidVersion, Version
from pyproject_hooks import BuildBackendHookCaller
from startup import RESULTS

# By what computes their version, as ci-doctor names it.
PACKAGES = [
    "compressed-tensors==0.20.0",
    "llmcompressor==0.14.0.1",
    "pytest",
    "xarray",
    "pluggy",
    "pytest-xdist",
    "pytest-asyncio",
    "importlib_metadata",
    "keyring",
    "jaraco.functools",
    "tqdm",
    "dask",
    "distributed",
    "anyio",
    "setuptools_scm",
    "iniconfig",
    "black",
    "zarr",
    "exceptiongroup",
    "flit_scm",
    "attrs",
    "structlog",
    "urllib3",
    "fsspec",
    "gcsfs",
    "geopandas",
    "datamodel-code-generator",
    "hatch-vcs",
    "jsonschema",
    "referencing",
    "cattrs",
    "execnet",
    "traitlets",
    "uproot",
    "vector",
    "hist",
    "boost-histogram",
    "pdm",
    "unearth",
    "dep-logic",
    "findpython",
    "griffe",
    "mkdocstrings",
    "s3fs",
    "partd",
    "mcp",
    "fastmcp",
    "guidellm",
    "speculators",
    "onetl",
    "setuptools-git-versioning",
    "versioningit",
    "ghrepo",
    "stevedore",
    "oslo.config",
    "reno",
    "pbr",
    "poetry-dynamic-versioning",
    "sglang",
    "dandi",
    "nibabel",
    "trio",
    "pint",
    "sphinx-autodoc-typehints",
]
BAD_TAGS = ("nightly-cu13", "v0.5.0-cu13")
ON_HEAD = "release"
RELEASES = ("1.2.3", "v1.2.3")
TIMEOUT_S = 240
DATE = "1700000000 +0000"
GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "gc.auto=0"]
PINNING = ("SETUPTOOLS_SCM_", "VCS_VERSIONING_", "PDM_BUILD", "PBR_", "CI_DOCTOR_")


@dataclass
class Case:
    """One bad tag of one package."""

    tag: str
    reference: str | None
    bare: str | None
    pinned: str | None
    code: int

    @property
    def outcome(self) -> str:
        if self.reference is None:
            return "unbuildable"
        is_harmless = same(self.bare, self.reference)
        if self.code:
            return "ALARM" if is_harmless else "refused"
        if not same(self.pinned, self.reference):
            return "BROKEN"
        return "right" if not is_harmless else "unharmed"


@dataclass
class Package:
    name: str
    tool: str = "?"
    cases: list[Case] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0


def same(first: str | None, second: str | None) -> bool:
    if first is None or second is None:
        return False
    try:
        return Version(first) == Version(second)
    except InvalidVersion:
        return first == second


def download(name: str, sdists: Path) -> Path:
    """The sdist of a package; pip asks its backend for metadata, and so builds it once."""
    wanted = name.partition("==")[0].replace("-", "_").replace(".", "_").lower()

    def found() -> list[Path]:
        return [
            path
            for path in sorted(sdists.glob("*.tar.gz"))
            if path.name.rpartition("-")[0].replace("-", "_").replace(".", "_").lower() == wanted
        ]

    if not found():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
        subprocess.run(
            [*command, "--no-binary", ":all:", "-d", str(sdists), name],
            check=True, capture_output=True, timeout=TIMEOUT_S,
        )  # fmt: skip
    return found()[0]


def git(root: Path, *words: str) -> None:
    # The same commits in every variant, so that one reference serves all.
    dates = {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
    subprocess.run(
        [*GIT, *words], cwd=root, check=True, capture_output=True, env={**os.environ, **dates}
    )


def make_repository(sdist: Path, root: Path, tag: str) -> None:
    """A release, a commit with the bad tag, and a commit with another one."""
    with tarfile.open(sdist) as archive:
        archive.extractall(root.parent, filter="data")
        top = Path(archive.getnames()[0]).parts[0]
    (root.parent / top).rename(root)
    # What only an sdist has would answer instead of git.
    for path in [root / "PKG-INFO", *root.rglob("*.egg-info"), *written_by_a_build(root)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    git(root, "init", "-q")
    git(root, "add", "-A", "-f")
    git(root, "commit", "-q", "-m", "a")
    for release in RELEASES:
        git(root, "tag", release)
    git(root, "commit", "-q", "--allow-empty", "-m", "b")
    git(root, "tag", tag)
    git(root, "commit", "-q", "--allow-empty", "-m", "c")
    git(root, "tag", ON_HEAD)


def written_by_a_build(root: Path) -> list[Path]:
    """Version files, which a checkout does not have: tracked, they would make it dirty."""
    return [
        path
        for path in root.rglob("*version*.py")
        if "generated by" in path.read_text(errors="replace")[:300].lower()
    ]


class Environment:
    """An isolated environment with the build requirements of one project."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.installed: set[str] = set()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)

    def add(self, requires: Iterable[str]) -> None:
        new = [each for each in requires if each not in self.installed]
        if not new:
            return
        self.installed.update(new)
        python = str(self.place / "bin" / "python")
        uv = shutil.which("uv")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
        command = [uv, "pip", "install", "-q", "--python", python] if uv else pip
        subprocess.run(
            [*command, *sorted(self.installed)],
            check=True, capture_output=True, timeout=TIMEOUT_S,
        )  # fmt: skip

    def version(self, project: Path, exports: Mapping[str, str]) -> str | None:
        """The version that the metadata states; None if the build fails."""
        try:
            toml = tomllib.loads((project / "pyproject.toml").read_text())
        except FileNotFoundError:
            toml = {}
        system = toml.get("build-system", {"requires": ["setuptools"]})
        environ = {k: v for k, v in os.environ.items() if not k.startswith(PINNING)}
        environ["PATH"] = f"{self.place / 'bin'}:{environ['PATH']}"

        def run(
            cmd: Sequence[str],
            cwd: str | None = None,
            extra_environ: Mapping[str, str] | None = None,
        ) -> None:
            variables = {**environ, **exports, **(extra_environ or {})}
            subprocess.run(
                cmd, cwd=cwd, env=variables, check=True, capture_output=True, timeout=TIMEOUT_S
            )

        caller = BuildBackendHookCaller(
            str(project),
            system.get("build-backend", "setuptools.build_meta:__legacy__"),
            backend_path=system.get("backend-path"),
            runner=run,
            python_executable=str(self.place / "bin" / "python"),
        )
        with tempfile.TemporaryDirectory() as scratch:
            self.add(system.get("requires", []))
            try:
                self.add(caller.get_requires_for_build_wheel())
                name = caller.prepare_metadata_for_build_wheel(scratch)
            except (subprocess.SubprocessError, OSError):
                return None
            text = (Path(scratch) / name / "METADATA").read_text(errors="replace")
        return email.parser.HeaderParser().parsestr(text)["Version"]


def try_tags(sdist: Path, place: Path) -> Iterator[tuple[Case, str]]:
    environment = Environment(place / "environment")
    reference: str | None = None
    for tag in BAD_TAGS:
        root = place / tag / "project"
        root.parent.mkdir()
        make_repository(sdist, root, tag)
        if tag == BAD_TAGS[0]:
            copy = place / "reference" / "project"
            shutil.copytree(root, copy, symlinks=True)
            git(copy, "tag", "-d", tag, ON_HEAD)
            reference = environment.version(copy, {})
        if reference is None:
            yield Case(tag, None, None, None, 0), tool_of(root)
            continue
        copy = place / tag / "bare"
        shutil.copytree(root, copy, symlinks=True)
        bare = environment.version(copy, {})
        code, exports = prepared(root, place)
        pinned = None if code else environment.version(root, exports)
        yield Case(tag, reference, bare, pinned, code), tool_of(root)


def prepared(root: Path, place: Path) -> tuple[int, dict[str, str]]:
    """The exit code of `setup-env` and its exports."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(PINNING)}
    ran = subprocess.run(
        [sys.executable, "-m", "ci_doctor", "setup-env", "--format", "json", "--determinism", "off"],
        cwd=root, capture_output=True, text=True, check=False, timeout=600,
        env={**environ, "CI_DOCTOR_REPORT_DIR": str(place / "reports")},
    )  # fmt: skip
    exports = json.loads(ran.stdout) if ran.returncode == 0 and ran.stdout.strip() else {}
    return ran.returncode, exports


def tool_of(project: Path) -> str:
    from ci_doctor.environment.detection import read_project

    return read_project(project).tool


def try_package(name: str, sdists: Path) -> Package:
    package = Package(name.partition("==")[0])
    start = time.monotonic()
    try:
        sdist = download(name, sdists)
        with tempfile.TemporaryDirectory(prefix="pins-", ignore_cleanup_errors=True) as place:
            for case, package.tool in try_tags(sdist, Path(place)):
                package.cases.append(case)
    except Exception as error:  # noqa: BLE001 - one package of sixty must not end the trial
        output = getattr(error, "stderr", b"") or b""
        last = output.decode(errors="replace").strip().rpartition("\n")[2]
        package.error = f"{type(error).__name__}: {last or error}"[:120]
    package.seconds = time.monotonic() - start
    return package


def rows(packages: Sequence[Package]) -> list[str]:
    lines = [
        "| package | version by | " + " | ".join(BAD_TAGS) + " |",
        "|---|---|" + "---|" * len(BAD_TAGS),
    ]
    for each in sorted(packages, key=lambda package: (package.tool, package.name)):
        cells = [case.outcome for case in each.cases] or [f"not tried: {each.error}"]
        cells += [""] * (len(BAD_TAGS) - len(cells))
        lines.append(f"| {each.name} | {each.tool} | {' | '.join(cells)} |")
    return lines


def summary(packages: Sequence[Package]) -> str:
    counts = collections.Counter(case.outcome for each in packages for case in each.cases)
    tried = [each for each in packages if any(case.reference for case in each.cases)]
    tools = {each.tool for each in tried}
    bare = [case for each in tried for case in each.cases if case.reference]
    broken = sum(not same(case.bare, case.reference) for case in bare)
    told = ", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items()))
    return (
        f"{len(tried)} packages, {len(tools)} ways to compute a version, {len(bare)} cases; "
        f"without a pin {broken} are broken. With setup-env: {told}."
    )


def record(packages: Sequence[Package], seconds: float) -> None:
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    title = f"\n## {datetime.now(UTC):%Y-%m-%d}: pins of real sdists, {seconds:.0f} s"
    text = [title, "", machine, "", summary(packages), "", *rows(packages), ""]
    with RESULTS.open("a") as file:
        file.write("\n".join(text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--sdists", type=Path, default=Path(tempfile.gettempdir()) / "pins-sdists")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--record", action="store_true", help="append the table to RESULTS.md")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # pyproject_hooks repeats those of the backends
    arguments.sdists.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    done = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        tries = [pool.submit(try_package, name, arguments.sdists) for name in arguments.packages]
        for each in concurrent.futures.as_completed(tries):
            package = each.result()
            done.append(package)
            told = ", ".join(f"{case.tag}: {case.outcome}" for case in package.cases)
            print(
                f"{package.name:28} {package.seconds:5.0f} s  {told or package.error}", flush=True
            )
            for case in package.cases:
                if case.outcome in {"BROKEN", "ALARM"}:
                    print(f"    {case}", flush=True)
    print(*rows(done), "", summary(done), sep="\n")
    if arguments.record:
        record(done, time.monotonic() - start)
    return int(any(case.outcome in {"BROKEN", "ALARM"} for each in done for case in each.cases))


if __name__ == "__main__":
    sys.exit(main())
