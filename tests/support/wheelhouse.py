# SPDX-License-Identifier: Apache-2.0
"""Acts on files: a wheelhouse of what is installed here, as one that is made with a package index.

The wheel of numpy is empty: it has 57 MB, and ci-doctor loads it only if answers differ.
"""

import hashlib
import importlib.metadata
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def fill(folder: Path) -> None:
    """Put our wheel and a wheel of each distribution that it needs into `folder`, with both lists."""
    folder.mkdir()
    own = importlib.metadata.distribution("ci-doctor-toolkit")
    _pack_own(own, folder)
    for name in sorted(_needed("ci-doctor-toolkit")):
        _pack(importlib.metadata.distribution(name), folder)
    (folder / "requirements.txt").write_text(f"ci-doctor-toolkit=={own.version}\n")
    write_sums(folder)


def write_sums(folder: Path) -> None:
    """`SHA256SUMS` of the files that are there."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def _needed(top: str) -> set[str]:
    pending, found = [top], set[str]()
    while pending:
        for requirement in _requirements(pending.pop()):
            name = canonicalize_name(requirement.name)
            if name not in found:
                found.add(name)
                pending.append(name)
    return found


def _requirements(name: str) -> Iterator[Requirement]:
    for line in importlib.metadata.requires(name) or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def _pack_own(own: importlib.metadata.Distribution, folder: Path) -> None:
    """Our wheel without a build, which tests/integration/test_packaging.py makes."""
    info = f"ci_doctor_toolkit-{own.version}.dist-info"
    wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    # An editable installation has it in site-packages, and as PKG-INFO in the checkout, which may come first.
    metadata = own.read_text("METADATA") or own.read_text("PKG-INFO")
    assert metadata
    texts = {
        "METADATA": metadata,
        "entry_points.txt": own.read_text("entry_points.txt"),
        "WHEEL": wheel,
        "RECORD": "",
    }
    with zipfile.ZipFile(
        folder / f"ci_doctor_toolkit-{own.version}-py3-none-any.whl", "w"
    ) as archive:
        for path in sorted((ROOT / "ci_doctor").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, str(path.relative_to(ROOT)))
        for name, text in texts.items():
            archive.writestr(f"{info}/{name}", text or "")


def _pack(distribution: importlib.metadata.Distribution, folder: Path) -> None:
    """The wheel that an installed distribution came from, but for what the installer has added (PEP 427).

    Without compression, because it is read once.
    """
    tags = (distribution.read_text("WHEEL") or "").split("Tag: ")[1:]
    parts = [tag.split()[0].split("-") for tag in tags]
    compressed = "-".join(".".join(dict.fromkeys(column)) for column in zip(*parts, strict=True))
    name = distribution.metadata["Name"].replace("-", "_").replace(".", "_")
    wheel = folder / f"{name}-{distribution.version}-{compressed}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in distribution.files or []:
            if name == "numpy" and not file.parts[0].endswith(".dist-info"):
                continue
            if file.parts[0] != ".." and "__pycache__" not in file.parts:
                archive.write(Path(str(distribution.locate_file(file))), str(file))
