"""Makes virtual environments and installs packages of our own into them, as an installer would."""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def make_venv(place: Path, *options: str, python: str = sys.executable) -> Path:
    """A virtual environment without pip at `place`; gives its python."""
    subprocess.run([python, "-m", "venv", "--without-pip", *options, str(place)], check=True)
    return place / "bin" / "python"


def copy_of(venv: Path, place: Path) -> Path:
    """A copy of an environment, to be broken; gives its python."""
    shutil.copytree(venv, place, symlinks=True)
    return place / "bin" / "python"


def site_of(python: Path) -> Path:
    """The site directory of a virtual environment with our own version."""
    return python.parent.parent / "lib" / f"python{VERSION}" / "site-packages"


def write_script(path: Path, text: str = "") -> Path:
    """A program of sh at `path`, in the place of what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def dist_info(
    site: Path,
    name: str,
    version: str,
    *requires: str,
    record: str | None = None,
    origin: object = None,
) -> Path:
    """The dist-info of a distribution without its files; `origin` is the content of direct_url.json."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    headers = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    headers += [f"Requires-Dist: {requirement}" for requirement in requires]
    # What stands below the headers is no header.
    (folder / "METADATA").write_text("\n".join([*headers, "", "Version: 0", ""]))
    if record is not None:
        (folder / "RECORD").write_text(record)
    if origin is not None:
        (folder / "direct_url.json").write_text(json.dumps(origin))
    return folder


def install(
    site: Path,
    name: str,
    version: str,
    *,
    files: Mapping[str, bytes] | None = None,
    requires: Sequence[str] = (),
    tags: Sequence[str] = ("py3-none-any",),
) -> Path:
    """Install a distribution with `files` (one module, if None); gives its dist-info."""
    module = name.replace("-", "_")
    contents = dict(files or {f"{module}/__init__.py": b"VALUE = 1\n"})
    folder = f"{module}-{version}.dist-info"
    headers = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    headers += [f"Requires-Dist: {requirement}" for requirement in requires]
    contents[f"{folder}/METADATA"] = "\n".join([*headers, "", "A text."]).encode()
    wheel = ["Wheel-Version: 1.0", *(f"Tag: {tag}" for tag in tags), ""]
    contents[f"{folder}/WHEEL"] = "\n".join(wheel).encode()
    contents[f"{folder}/INSTALLER"] = b"pip\n"
    lines = []
    for path, content in contents.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        lines.append(f"{path},sha256={_digest(content)},{len(content)}")
    lines.append(f"{folder}/RECORD,,")
    (site / folder / "RECORD").write_text("\n".join(lines) + "\n")
    return site / folder


def _digest(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return digest.rstrip(b"=").decode()
