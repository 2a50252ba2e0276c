# SPDX-License-Identifier: Apache-2.0
"""Acts on files: fills a folder with every wheel that an installation without a network needs.

    .venv/bin/python install/wheelhouse.py --out wheelhouse --extra cache --extra history --python 3.11 --python 3.12

Run it in a clone on a machine with a package index, by a Python with pip and `packaging` (the one that `sh bootstrap.sh`
makes). Carry the folder to the other machine. There, no other file is needed:

    python3 -m venv .venv
    .venv/bin/pip install --no-index --find-links wheelhouse -r wheelhouse/requirements.txt

Wheels alone are taken: a source distribution would need a compiler and an index there. `pip download --python-version`
reads markers such as `python_version < "3.12"` by the Python that runs it, so the script follows the requirements of
every wheel itself, with the markers of each Python asked for. It ends with 1 if one of them cannot be met.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from email.parser import BytesParser
from pathlib import Path
from typing import NamedTuple

try:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name, parse_wheel_filename
except ModuleNotFoundError:
    sys.exit("wheelhouse.py needs `packaging`: run it by .venv/bin/python of `sh bootstrap.sh`")

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = Path(__file__).with_name("constraints.txt")
DISTRIBUTION = "ci-doctor-toolkit"
MACHINES = ("x86_64", "aarch64")
# glibc's names of platforms before PEP 600.
LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


class Target(NamedTuple):
    """A kind of machine: Python's version, the processor, and the minor version of glibc 2."""

    python: str
    machine: str
    glibc: int

    @property
    def platforms(self) -> tuple[str, ...]:
        """Every platform tag of a wheel that runs there (PEP 600)."""
        minors = range(self.glibc, 4, -1)
        tags = [f"manylinux_2_{minor}_{self.machine}" for minor in minors]
        tags += [f"{name}_{self.machine}" for minor, name in LEGACY.items() if minor in minors]
        return (*tags, f"linux_{self.machine}")

    @property
    def markers(self) -> dict[str, str]:
        """The environment in which markers are read (PEP 508)."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }


class IncompleteError(Exception):
    """A wheel cannot be had; the message says which and for whom."""


def _folder(text: str) -> Path:
    """The folder of `--out`, which may not exist yet."""
    path = Path(text)
    for each in (path, *path.parents):
        if each.exists() and not each.is_dir():
            raise argparse.ArgumentTypeError(f"{each} is no folder")
    return path


def _python(text: str) -> str:
    """A version of Python, without its third part."""
    if not re.fullmatch(r"3\.[0-9]{1,3}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is no version such as 3.12")
    return text


def _glibc_minor(text: str) -> int:
    """The number behind `2.`: manylinux has no other glibc (PEP 600)."""
    match = re.fullmatch(r"2\.([0-9]{1,3})", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no version such as 2.28")
    return int(match[1])


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    add = parser.add_argument
    add("--out", type=_folder, required=True, help="the folder; it may exist and be empty")
    add("--extra", action="append", default=[], help="an extra of ci-doctor; repeatable")
    add(
        "--python",
        type=_python,
        action="append",
        help=f"a version of Python; repeatable; default {own}",
    )
    add("--machine", default="x86_64", choices=MACHINES, help="x86_64 (default) or aarch64")
    add(
        "--glibc",
        type=_glibc_minor,
        default="2.28",
        help="the oldest glibc there; 2.28 (default) is Debian 10's",
    )
    add(
        "--source",
        default=str(ROOT),
        help="a checkout (its commit), an sdist or a wheel; default this clone",
    )
    add("--newest", action="store_true", help="ignore install/constraints.txt")
    parsed = parser.parse_args(words)
    parsed.python = parsed.python or [own]
    return parsed


def main(words: Sequence[str] | None = None) -> int:
    """Fill the folder; the exit status."""
    options = arguments(words)
    out: Path = options.out
    if out.exists() and any(out.iterdir()):
        print(f"wheelhouse.py: {out} is not empty", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    targets = [Target(version, options.machine, options.glibc) for version in options.python]
    constraint = [] if options.newest else ["--constraint", str(CONSTRAINTS)]
    try:
        requirement = add_ours(options.source, options.extra, out)
        for target in targets:
            add_all(requirement, target, out, constraint)
    except IncompleteError as error:
        print(f"wheelhouse.py: {error}", file=sys.stderr)
        return 1
    write_lists(out, requirement)
    print(f"{out}: {len(list(out.glob('*.whl')))} wheels for Python {', '.join(options.python)}")
    print(f"there: pip install --no-index --find-links {out.name} -r {out.name}/requirements.txt")
    return 0


def add_ours(source: str, extras: Sequence[str], out: Path) -> str:
    """Build our wheel of `source` into `out`, or copy it; the requirement that names it."""
    if source.endswith(".whl"):
        shutil.copy(source, out)
    elif Path(source, ".git").exists():
        add_commit(source, out)
    else:
        pip("wheel", "--no-deps", "--wheel-dir", str(out), source)
    (wheel,) = out.glob("ci_doctor_toolkit-*.whl")
    version = parse_wheel_filename(wheel.name)[1]
    listed = f"[{','.join(sorted(extras))}]" if extras else ""
    return f"{DISTRIBUTION}{listed}=={version}"


def add_commit(checkout: str, out: Path) -> None:
    """Build the commit of `checkout` in a clone: pip would leave files there, and build them again."""
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "clone", "--quiet", checkout, folder]
        if subprocess.run(git, check=False).returncode:
            raise IncompleteError(f"{checkout} cannot be cloned")
        pip("wheel", "--no-deps", "--wheel-dir", str(out), folder)


def add_all(requirement: str, target: Target, out: Path, constraint: Sequence[str]) -> None:
    """Download what `requirement` needs on `target`, until nothing is missing."""
    wanted = [requirement]
    while wanted:
        download(wanted, target, out, constraint)
        missing = list(unmet(Requirement(requirement), target, out))
        if missing == wanted:
            raise IncompleteError(
                f"{', '.join(missing)} for Python {target.python} is not in {out}"
            )
        wanted = missing


def download(
    requirements: Sequence[str], target: Target, out: Path, constraint: Sequence[str]
) -> None:
    """The wheels of `requirements`, with what pip finds that they need."""
    platforms = [word for tag in target.platforms for word in ("--platform", tag)]
    pip(
        *("download", "--dest", str(out), "--find-links", str(out), "--only-binary", ":all:"),
        *("--implementation", "cp", "--python-version", target.python, *platforms),
        *constraint,
        *requirements,
    )


def unmet(top: Requirement, target: Target, out: Path) -> Iterator[str]:
    """What `top` needs on `target`, directly or not, and no wheel in `out` gives."""
    pending, visited = [top], set()
    while pending:
        requirement = pending.pop()
        if str(requirement) in visited:
            continue
        visited.add(str(requirement))
        wheel = wheel_for(requirement, target, out)
        if wheel is None:
            yield str(requirement)
            continue
        pending += needs(wheel, requirement.extras, target)


def wheel_for(requirement: Requirement, target: Target, out: Path) -> Path | None:
    """The wheel in `out` that meets `requirement` on `target`."""
    for wheel in sorted(out.glob("*.whl")):
        name, version, _, tags = parse_wheel_filename(wheel.name)
        if name != canonicalize_name(requirement.name):
            continue
        fits = any(_fits(tag.interpreter, tag.abi, tag.platform, target) for tag in tags)
        if fits and requirement.specifier.contains(version, prereleases=True):
            return wheel
    return None


def _fits(interpreter: str, abi: str, platform: str, target: Target) -> bool:
    """Whether a wheel of these tags runs on `target`."""
    if platform != "any" and platform not in target.platforms:
        return False
    own = f"cp{target.python.replace('.', '')}"
    if interpreter == own:
        return abi in (own, "abi3", "none")
    if abi == "abi3":
        return int(interpreter.removeprefix("cp3")) <= int(target.python.partition(".")[2])
    return abi == "none" and interpreter in (
        "py3",
        "py2.py3",
        f"py{target.python.replace('.', '')}",
    )


def needs(wheel: Path, extras: set[str], target: Target) -> Iterator[Requirement]:
    """What the metadata of `wheel` requires on `target`, without the marker."""
    with zipfile.ZipFile(wheel) as archive:
        # Those of packages that it brings along lie deeper.
        names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        name = min(names, key=lambda path: path.count("/"))
        metadata = BytesParser().parsebytes(archive.read(name), headersonly=True)
    for line in metadata.get_all("Requires-Dist") or []:
        requirement = Requirement(line)
        marker = requirement.marker
        environments = [{**target.markers, "extra": extra} for extra in ("", *extras)]
        if marker is None or any(marker.evaluate(each) for each in environments):
            requirement.marker = None
            yield requirement


def write_lists(out: Path, requirement: str) -> None:
    """`requirements.txt` for the installation there, and `SHA256SUMS` for sha256sum(1)."""
    (out / "requirements.txt").write_text(requirement + "\n", encoding="utf-8")
    paths = sorted([*out.glob("*.whl"), out / "requirements.txt"])
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def pip(command: str, *words: str) -> None:
    """Run pip of this interpreter; raises IncompleteError with its last lines if it fails."""
    line = [sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check", *words]
    ran = subprocess.run(line, check=False, capture_output=True, text=True)
    if ran.returncode:
        raise IncompleteError(f"pip {command} failed\n{ran.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main())
