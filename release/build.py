# SPDX-License-Identifier: Apache-2.0
"""Acts on files: builds the sdist and the wheel of the commit that is checked out, the same bytes each time.

    .venv/bin/python -m release.build --out dist

A clone is built, so nothing untracked gets in. The wheel is built from the sdist and from the clone, and both must be
equal. Times in the archives are the commit's (SOURCE_DATE_EPOCH), owners are root, modes are 644 and 755. The build tools
are those of this interpreter, without isolation; the environment of `sh tests/run.sh` has them.
"""

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pyproject_hooks import BuildBackendHookCaller, quiet_subprocess_runner

ROOT = Path(__file__).resolve().parents[1]
BACKEND = "setuptools.build_meta"


class Built(NamedTuple):
    """The two files of a release."""

    sdist: Path
    wheel: Path


class BuildError(Exception):
    """A build failed or is not what it should be; the message says which."""


def build(repository: Path, out: Path) -> Built:
    """Build the commit checked out in `repository` into `out`; raises BuildError."""
    out.mkdir(parents=True, exist_ok=True)
    # Modes of files stand in a wheel.
    before = os.umask(0o022)
    try:
        return _build(repository, out)
    finally:
        os.umask(before)


def _build(repository: Path, out: Path) -> Built:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone = folder / "clone"
        # A local clone would share the object files, and their modes with them.
        _git(folder, "clone", "--quiet", "--no-local", str(repository), str(clone))
        epoch = int(_git(clone, "log", "-1", "--format=%ct"))
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
        raw = _call(clone, "build_sdist", folder / "raw", environment)
        sdist = _normalised(raw, out / raw.name, epoch)
        wheel = _wheel_of_sdist(sdist, folder, environment)
        from_clone = _call(clone, "build_wheel", folder / "from-clone", environment)
        if wheel.read_bytes() != from_clone.read_bytes():
            raise BuildError(f"{wheel.name} of the sdist differs from that of the clone")
        return Built(sdist, Path(shutil.copy(wheel, out)))


def _wheel_of_sdist(sdist: Path, folder: Path, environment: dict[str, str]) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    return _call(source, "build_wheel", folder / "from-sdist", environment)


def _call(source: Path, hook: str, out: Path, environment: dict[str, str]) -> Path:
    """What the hook of PEP 517 builds from `source` into `out`."""

    def run(
        cmd: Sequence[str],
        cwd: str | None = None,
        extra_environ: Mapping[str, str] | None = None,
    ) -> None:
        quiet_subprocess_runner(cmd, cwd, {**environment, **(extra_environ or {})})

    out.mkdir()
    caller = BuildBackendHookCaller(str(source), BACKEND, runner=run)
    try:
        name = getattr(caller, hook)(str(out))
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{hook} failed\n{error.output.decode(errors='replace')}") from error
    return out / str(name)


def _normalised(raw: Path, target: Path, epoch: int) -> Path:
    """`raw` with sorted members, one time and no owner: setuptools takes those of the machine."""
    with (
        tarfile.open(raw) as source,
        target.open("wb") as file,
        # Neither the name of the file nor the time of the build.
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as result,
    ):
        for member in sorted(source.getmembers(), key=lambda each: each.name):
            content = source.extractfile(member) if member.isfile() else None
            result.addfile(_plain(member, epoch), content)
    return target


def _plain(member: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    is_executable = member.isdir() or bool(member.mode & 0o100)
    plain = member.replace(
        mtime=epoch,
        mode=0o755 if is_executable else 0o644,
        uid=0,
        gid=0,
        uname="",
        gname="",
    )
    # They hold the time again; tarfile makes those anew that a long path needs.
    plain.pax_headers = {}
    return plain


def _git(directory: Path, *words: str) -> str:
    ran = subprocess.run(
        ["git", *words], cwd=directory, check=False, capture_output=True, text=True
    )
    if ran.returncode:
        raise BuildError(f"git {words[0]} failed\n{ran.stderr.strip()}")
    return ran.stdout.strip()


def sums(built: Built) -> str:
    """Lines for sha256sum(1)."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built]
    return "".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Build into a folder; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="default: dist")
    out: Path = parser.parse_args(words).out
    if out.exists() and any(out.iterdir()):
        print(f"build.py: {out} is not empty", file=sys.stderr)
        return 2
    try:
        built = build(ROOT, out)
    except BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    (out / "SHA256SUMS").write_text(sums(built), encoding="utf-8")
    print(sums(built), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
