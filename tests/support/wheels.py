# SPDX-License-Identifier: Apache-2.0
"""Acts on files: virtual environments with many tiny packages, without a network or an installer's time."""

import base64
import hashlib
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def make_venv(directory: Path) -> Path:
    """A virtual environment of this Python without pip (PEP 405); its site directory."""
    site = directory / SITE
    site.mkdir(parents=True)
    (directory / "bin").mkdir()
    (directory / "bin" / "python").symlink_to(sys.executable)
    home = Path(sys.executable).resolve().parent
    (directory / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    return site


def build_wheel(
    directory: Path, name: str, version: str, files: Mapping[str, str], headers: str = ""
) -> Path:
    """A wheel (PEP 427) with `files`, and `headers` on top of the metadata's own."""
    info = f"{name}-{version}.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{headers}\nText.\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [_line(path, text) for path, text in contents.items()]
    contents[f"{info}/RECORD"] = "".join(lines) + f"{info}/RECORD,,\n"
    directory.mkdir(parents=True, exist_ok=True)
    wheel = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
    return wheel


def install_wheel(wheel: Path, site: Path) -> None:
    """Unpack `wheel` as an installer does, which adds lines of its own to RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        names = archive.namelist()
    record = next(site / name for name in names if name.endswith(".dist-info/RECORD"))
    (record.parent / "INSTALLER").write_text("pip\n")
    info = record.parent.name
    record.write_text(
        f"{info}/INSTALLER,sha256=zuuue4knoyJ-UwPPXg8fezS7VCrXJQrAP7zeNuwvFQg,4\n"
        "../../../bin/program,sha256=AAAA,1\n" + record.read_text()
    )


def add_package(site: Path, name: str, version: str, *, text: str = "") -> Path:
    """Install a package of one module; the module's file."""
    module = f"{name.replace('-', '_')}/__init__.py"
    files = {module: text or f"VERSION = {version!r}\n"}
    wheel = build_wheel(site.parent / "wheels", name.replace("-", "_"), version, files)
    install_wheel(wheel, site)
    return site / module


def _line(path: str, text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    return f"{path},sha256={digest},{len(text.encode())}\n"
