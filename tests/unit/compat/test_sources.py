# SPDX-License-Identifier: Apache-2.0
"""What can be named as a package."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from ci_doctor.compat.sources import open_source
from ci_doctor.errors import UsageError
from tests.support.git_repository import git, make_repository


def test_a_directory_is_read_without_what_lies_outside_it(tmp_path: Path) -> None:
    outside = tmp_path / "secret.py"
    outside.write_text("x = 1\n")
    package = tmp_path / "repo" / "lib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '1.2'\n")
    (package / "link.py").symlink_to(outside)
    (package / "loop").symlink_to(package)
    os.mkfifo(package / "pipe.py")

    tree = open_source(str(tmp_path / "repo"))

    assert tree.read("lib/__init__.py") == b"__version__ = '1.2'\n"
    assert tree.version == "1.2"
    assert not any("loop" in each for each in tree.names)
    for hostile in ("lib/link.py", "lib/pipe.py"):
        with pytest.raises(OSError, match=r"link|no file"):
            tree.read(hostile)


def test_an_sdist_gives_its_regular_files_and_runs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lib-1.0.tar.gz"
    ran = tmp_path / "ran"
    files = {
        "lib-1.0/PKG-INFO": "Name: lib\nVersion: 1.0\n",
        "lib-1.0/setup.py": f"open({str(ran)!r}, 'w')\n",
        "lib-1.0/lib/__init__.py": "def f(): ...\n",
        "lib-1.0/../../escaped.py": "x = 1\n",
        "/absolute.py": "x = 1\n",
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("lib-1.0/lib/passwd.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)

    tree = open_source(str(path))

    assert tree.names == {"PKG-INFO", "setup.py", "lib/__init__.py"}
    assert (tree.distribution, tree.version) == ("lib", "1.0")
    assert not ran.exists()
    assert not (tmp_path.parent / "escaped.py").exists()


def test_a_wheel_is_read_without_members_that_lead_out(tmp_path: Path) -> None:
    path = tmp_path / "lib-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("lib/__init__.py", "def f(): ...\n")
        archive.writestr("../out.py", "x = 1\n")
        archive.writestr("lib/huge.py", "#" * (5 * 2**20), zipfile.ZIP_DEFLATED)
        archive.writestr("lib-1.0.dist-info/METADATA", "Name: lib\nVersion: 1.0\n\n")

    tree = open_source(str(path))

    assert "../out.py" not in tree.names
    assert tree.version == "1.0"
    with pytest.raises(OSError, match="larger"):
        tree.read("lib/huge.py")


def test_a_revision_is_read_from_the_objects_of_the_repository(tmp_path: Path) -> None:
    make_repository(tmp_path, {"lib/__init__.py": "def f(a): ...\n"})
    git(tmp_path, "tag", "v1.5")
    (tmp_path / "lib" / "__init__.py").write_text("def f(a, b): ...\n")

    tree = open_source(f"{tmp_path}@v1.5")

    assert tree.read("lib/__init__.py") == b"def f(a): ...\n"
    assert tree.version == "1.5"


def test_an_installed_package_is_found_beside_an_interpreter(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    info = site / "my_lib-3.dist-info"
    info.mkdir(parents=True)
    (site / "my_lib.py").write_text("def f(): ...\n")
    (info / "METADATA").write_text("Name: my-lib\nVersion: 3\n\n")
    (info / "RECORD").write_text("my_lib.py,,\nmy_lib-3.dist-info/METADATA,,\n../../../out.py,,\n")

    tree = open_source("My.Lib", tmp_path / "bin" / "python")

    assert (sorted(tree.names), tree.version) == (["my_lib.py"], "3")


@pytest.mark.parametrize("has_bare_name", [False, True])
def test_a_build_under_another_name_is_named_by_what_it_installs(
    tmp_path: Path, *, has_bare_name: bool
) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    (site / "engine").mkdir(parents=True)
    (site / "engine" / "__init__.py").write_text("def f(): ...\n")
    files = {"engine_cpu-3.dist-info": "engine/__init__.py,,\n"}
    if has_bare_name:
        files["engine-3+cpu.dist-info"] = "engine-3+cpu.dist-info/METADATA,,\n"
    for folder, record in files.items():
        (site / folder).mkdir()
        (site / folder / "METADATA").write_text(f"Name: {folder.partition('-')[0]}\nVersion: 3\n\n")
        (site / folder / "RECORD").write_text(record)

    tree = open_source("engine", tmp_path / "bin" / "python")

    assert (sorted(tree.names), tree.label) == (["engine/__init__.py"], "engine_cpu 3")


@pytest.mark.parametrize("name", ["no-such-package", "empty", "text.whl", "text.tar.gz", "text"])
def test_what_holds_no_package_is_a_usage_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    for each in ("text.whl", "text.tar.gz", "text"):
        (tmp_path / each).write_text("no archive")
    named = name if name == "no-such-package" else str(tmp_path / name)

    with pytest.raises(UsageError):
        open_source(named)
