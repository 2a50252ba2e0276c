# SPDX-License-Identifier: Apache-2.0
"""Whether `ci-doctor setup-env` pins the versions of real projects, or refuses where it cannot.

    python benchmarks/pins.py                     all packages: downloads their sdists, builds each a dozen times
    python benchmarks/pins.py pluggy exceptiongroup
    python benchmarks/pins.py --sdists DIR        sdists that are there already are not downloaded
    python benchmarks/pins.py --state DIR         results of the same code, kept there, are not made again
    python benchmarks/pins.py --record            also appends the table to benchmarks/RESULTS.md

Each sdist becomes a repository with a release tag, and after it a tag that is no version, in two variants; `release` is
on HEAD in both. Its metadata is built in isolation, by the backend that it requires: without the bad tags (`reference`),
with them and no pin (`bare`), and with them under the exports of `setup-env` (`pinned`).

- `right`: the pinned version is the reference, and the bare one is not.
- `refused`: setup-env ends with an error, and the bare build is broken indeed.
- `unharmed`: the bare build has the right version, and so has the pinned one.
- `BROKEN`: setup-env passes, and the build is wrong. `ALARM`: setup-env refuses a build that is right.
- `unbuildable`: the reference cannot be built on this machine, which proves nothing.

The exit status is 1 if there is a BROKEN or an ALARM. An interrupted run goes on where it was, if it is given the same
`--state`; a change of ci-doctor or of this benchmark makes every result anew.
"""

import collections
import concurrent.futures
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version
from results import options, record, table
from sdist_checkouts import (
    ON_HEAD,
    Environment,
    download,
    git,
    make_repository,
    unpinned_environ,
)

ROOT = Path(__file__).resolve().parent.parent
BAD_TAGS = ("nightly-cu13", "v0.5.0-cu13")
FAILURES = ("BROKEN", "ALARM")
# The rarer ways to compute a version first.
PACKAGES = """
unearth boost-histogram pdm findpython dep-logic exceptiongroup flit_scm
compressed-tensors==0.20.0 llmcompressor==0.14.0.1 guidellm versioningit ghrepo
poetry-dynamic-versioning partd s3fs dandi griffe mcp fastmcp oslo.config pbr
setuptools-git-versioning setuptools_scm onetl datamodel-code-generator speculators sglang
mkdocstrings pdm-backend scikit-build-core iminuit awkward-cpp pyzmq cython-cmake maturin orjson
versioneer toolz bottleneck dunamai uv-dynamic-versioning flit_core tomli cliff autopage
python-neutronclient extension-helpers pygit2 jupyter-server-ydoc meson-python
hypothesis-jsonschema ruamel.yaml python-dotenv pytest xarray pluggy pytest-xdist pytest-asyncio
importlib_metadata keyring jaraco.functools tqdm dask distributed anyio iniconfig black zarr attrs
structlog urllib3 fsspec gcsfs geopandas hatch-vcs jsonschema referencing cattrs execnet traitlets
uproot vector hist stevedore reno nibabel trio pint sphinx-autodoc-typehints
"""
# For one run of `setup-env`, which has a time limit of its own.
LIMIT_S = 600


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
    sdist: str = ""
    tool: str = "?"
    cases: list[Case] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0
    code: str = ""


def same(first: str | None, second: str | None) -> bool:
    if first is None or second is None:
        return False
    try:
        return Version(first) == Version(second)
    except InvalidVersion:
        return first == second


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
    environ = unpinned_environ()
    ran = subprocess.run(
        [sys.executable, "-m", "ci_doctor", "setup-env", "--format", "json", "--determinism", "off"],
        cwd=root, capture_output=True, text=True, check=False, timeout=LIMIT_S,
        env={**environ, "CI_DOCTOR_REPORT_DIR": str(place / "reports")},
    )  # fmt: skip
    exports = json.loads(ran.stdout) if ran.returncode == 0 and ran.stdout.strip() else {}
    return ran.returncode, exports


def tool_of(project: Path) -> str:
    from ci_doctor.environment.detection import read_project

    return read_project(project).tool


def fingerprint() -> str:
    """What the results depend on: the code that computes pins, this benchmark, and Python."""
    digest = hashlib.sha256(platform.python_version().encode())
    here = Path(__file__)
    pinning = sorted((ROOT / "ci_doctor" / "environment").rglob("*.py"))
    for path in (here, here.with_name("sdist_checkouts.py"), *pinning):
        if not path.name.startswith("determinism"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def kept(name: str, code: str, state: Path) -> Package | None:
    """The result of an earlier run of the same code; None if there is none."""
    path = state / f"{name}.json"
    if not path.exists():
        return None
    earlier = msgspec.json.decode(path.read_bytes(), type=Package)
    return earlier if earlier.code == code else None


def keep(package: Package, name: str, state: Path) -> None:
    path = state / f"{name}.json"
    path.with_suffix(".new").write_bytes(msgspec.json.encode(package))
    path.with_suffix(".new").rename(path)


def result_of(name: str, code: str, sdists: Path, state: Path) -> Package:
    earlier = kept(name, code, state)
    if earlier is not None:
        return earlier
    package = try_package(name, sdists)
    if not package.error:
        package.code = code
        keep(package, name, state)
    return package


def try_package(name: str, sdists: Path) -> Package:
    package = Package(name.partition("==")[0])
    start = time.monotonic()
    try:
        sdist = download(name, sdists)
        package.sdist = sdist.name.removesuffix(".tar.gz")
        with tempfile.TemporaryDirectory(prefix="pins-", ignore_cleanup_errors=True) as place:
            for case, package.tool in try_tags(sdist, Path(place)):
                package.cases.append(case)
    except Exception as error:  # noqa: BLE001 - one package of sixty must not end the trial
        package.error = f"{type(error).__name__}: {getattr(error, 'stderr', None) or error}"[:120]
    package.seconds = time.monotonic() - start
    return package


def rows(packages: Sequence[Package]) -> list[str]:
    lines = []
    for each in sorted(packages, key=lambda package: (package.tool, package.name)):
        cells = [case.outcome for case in each.cases] or [f"not tried: {each.error}"]
        cells += [""] * (len(BAD_TAGS) - len(cells))
        lines.append((each.sdist or each.name, each.tool, *cells))
    return table(" | ".join(["sdist", "version by", *BAD_TAGS]), lines)


def summary(packages: Sequence[Package]) -> str:
    counts = collections.Counter(case.outcome for each in packages for case in each.cases)
    tried = [each for each in packages if any(case.reference for case in each.cases)]
    tools = {each.tool for each in tried}
    bare = [case for each in tried for case in each.cases if case.reference]
    broken = sum(not same(case.bare, case.reference) for case in bare)
    told = ", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items()))
    missing = [each.name for each in packages if each not in tried]
    untried = f" Not built on this machine: {', '.join(sorted(missing))}." if missing else ""
    return (
        f"{len(tried)} packages, {len(tools)} ways to compute a version, {len(bare)} cases; "
        f"without a pin {broken} are broken. With setup-env: {told}.{untried}"
    )


def told(package: Package) -> str:
    outcomes = ", ".join(f"{case.tag}: {case.outcome}" for case in package.cases)
    lines = [f"{package.name:28} {package.seconds:5.0f} s  {outcomes or package.error}"]
    lines += [f"    {case}" for case in package.cases if case.outcome in FAILURES]
    return "\n".join(lines)


def main() -> int:
    parser = options(__doc__)
    scratch = Path(tempfile.gettempdir())
    parser.add_argument("packages", nargs="*", default=PACKAGES.split())
    parser.add_argument("--sdists", type=Path, default=scratch / "pins-sdists")
    parser.add_argument("--state", type=Path, default=scratch / "pins-state")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # pyproject_hooks repeats those of the backends
    places = (arguments.sdists, arguments.state)
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    done: list[Package] = []
    code = fingerprint()  # before anything is edited beside a running trial
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        tries = [pool.submit(result_of, name, code, *places) for name in arguments.packages]
        for each in concurrent.futures.as_completed(tries):
            done.append(each.result())
            print(told(done[-1]), flush=True)
    print(*rows(done), "", summary(done), sep="\n")
    if arguments.record:
        title = f"pins of real sdists, {sum(each.seconds for each in done):.0f} s of builds"
        installer = "uv" if shutil.which("uv") else "pip"
        record(title, [summary(done), "", *rows(done)], f", with {installer}")
    return int(any(case.outcome in FAILURES for each in done for case in each.cases))


if __name__ == "__main__":
    sys.exit(main())
