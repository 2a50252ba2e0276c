# SPDX-License-Identifier: Apache-2.0
"""Reads a release before it is uploaded: every reason against it, and exit status 1 if there is one.

    .venv/bin/python -m release.build --out dist
    .venv/bin/python -m release.check dist

docs/releasing.md has the commands around it. The programs that judge the files (twine and others) are those beside this
interpreter: `pip install --group release`. One that is missing is a reason, too.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from email.parser import BytesParser
from pathlib import Path

from release.build import BuildError, build
from release.constraints import FILE, constraints

ROOT = Path(__file__).resolve().parents[1]
# RFC 2606 reserves names that end so; no project lives there.
RESERVED = re.compile(r"https?://[\w.-]*\.example\b")
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
PROGRAMS = (
    ("twine", "check", "--strict", "{wheel}", "{sdist}"),
    ("check-wheel-contents", "{wheel}"),
    ("validate-pyproject", "{root}/pyproject.toml"),
)


def home_problems(pyproject: str) -> Iterator[str]:
    """The reserved addresses that a project has before it has a home."""
    tables = tomllib.loads(pyproject)
    urls = tables["project"]["urls"]
    places = tables["tool"]["ci-doctor-readme"]
    for table, values in (("project.urls", urls), ("tool.ci-doctor-readme", places)):
        for name, address in values.items():
            if RESERVED.match(address):
                yield f"pyproject.toml: [{table}] {name} is the reserved {address}"


def version_problems(version: str, tag: str, changelog: str) -> Iterator[str]:
    """`tag` is what git describes HEAD as."""
    if not VERSION.fullmatch(version):
        yield f"{version} is no version of a release: tag a commit whose tree is clean"
    if tag != f"v{version}":
        yield f"HEAD is {tag}, not v{version}"
    if f"\n## [{version}]" not in changelog:
        yield f"CHANGELOG.md has no section [{version}]"


def wheel_problems(wheel: Path, tracked: set[str]) -> Iterator[str]:
    """What is in the wheel and should not be, and links of its page that lead nowhere."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        page = str(BytesParser().parsebytes(archive.read(metadata)).get_payload())
    info = metadata.partition("/")[0]
    for name in names:
        if not name.startswith(("ci_doctor/", f"{info}/")):
            yield f"{wheel.name} holds {name}"
    yield from page_problems(page, tracked)


def page_problems(page: str, tracked: set[str]) -> Iterator[str]:
    """Links that are relative, or name a file that the repository lacks."""
    places = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ci-doctor-readme"]
    prefixes = [re.escape(place).replace(r"\{revision\}", "[^/]+") for place in places.values()]
    for address in re.findall(r"\]\(([^)\s]+)\)", page):
        path = re.sub(f"^({'|'.join(prefixes)})", "", address)
        if path == address:
            if not re.match(r"[a-z]+:|#", address):
                yield f"the page of the index has the relative link {address}"
        elif path.partition("#")[0] not in tracked:
            yield f"the page of the index links to {path}, which is not in the repository"


def rebuild_problems(sdist: Path, wheel: Path) -> Iterator[str]:
    """Whether another build, elsewhere and with another umask, gives the same bytes."""
    before = os.umask(0o077)
    try:
        with tempfile.TemporaryDirectory() as folder:
            again = build(ROOT, Path(folder))
            for present, other in ((sdist, again.sdist), (wheel, again.wheel)):
                if present.name != other.name:
                    yield f"another build is called {other.name}, not {present.name}"
                elif present.read_bytes() != other.read_bytes():
                    yield f"another build of {present.name} has other bytes"
    except BuildError as error:
        yield f"another build fails: {error}"
    finally:
        os.umask(before)


def program_problems(sdist: Path, wheel: Path) -> Iterator[str]:
    """What the programs of PROGRAMS say of the files."""
    folder = Path(sys.executable).parent
    for name, *words in PROGRAMS:
        command = [word.format(wheel=wheel, sdist=sdist, root=ROOT) for word in words]
        try:
            ran = subprocess.run(
                [str(folder / name), *command], check=False, capture_output=True, text=True
            )
        except FileNotFoundError:
            yield f"{name} is not installed beside {sys.executable}: pip install --group release"
            continue
        if ran.returncode:
            yield f"{name} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}".rstrip()


def constraint_problems() -> Iterator[str]:
    """Whether install/constraints.txt is what the tests ran with here."""
    if FILE.read_text(encoding="utf-8") != constraints():
        yield "install/constraints.txt is not of this interpreter: python -m release.constraints"


def problems(sdist: Path, wheel: Path) -> Iterator[str]:
    """Every reason against the release of the two files."""
    tracked = set(_git("ls-files").splitlines())
    version = wheel.name.split("-")[1]
    yield from home_problems((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    described = _git("describe", "--tags", "--always", "--dirty", "--match", "v[0-9]*.*")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    yield from version_problems(version, described, changelog)
    yield from wheel_problems(wheel, tracked)
    yield from constraint_problems()
    yield from program_problems(sdist, wheel)
    yield from rebuild_problems(sdist, wheel)


def _git(*words: str) -> str:
    ran = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def main(words: Sequence[str] | None = None) -> int:
    """Print every reason; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dist", type=Path, help="the folder that release/build.py has filled")
    dist: Path = parser.parse_args(words).dist
    sdists, wheels = sorted(dist.glob("*.tar.gz")), sorted(dist.glob("*.whl"))
    if (len(sdists), len(wheels)) != (1, 1):
        print(f"check.py: {dist} does not hold one sdist and one wheel", file=sys.stderr)
        return 2
    reasons = list(problems(sdists[0], wheels[0]))
    for reason in reasons:
        print(f"- {reason}")
    print(f"{len(reasons)} reasons against this release" if reasons else "nothing against it")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
