# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from ci_doctor.machine.packages import (
    find_package,
    installed,
    read_record,
    record_digest,
    torch_build,
)
from tests.support.packages import dist_info


def torch(site: Path, version: str, text: str | None) -> None:
    dist_info(site, "torch", version)
    if text is not None:
        (site / "torch").mkdir()
        (site / "torch" / "version.py").write_text(text)


def test_the_first_directory_is_that_of_an_import(tmp_path: Path) -> None:
    dist_info(tmp_path / "a", "Flash_Attn", "2.0")
    dist_info(tmp_path / "b", "flash-attn", "1.0")

    first = find_package("flash.attn", [tmp_path / "gone", tmp_path / "a", tmp_path / "b"])

    assert first is not None
    assert (first.name, first.version, first.site) == ("flash-attn", "2.0", tmp_path / "a")


def test_metadata_in_latin_1_is_read(tmp_path: Path) -> None:
    text = "Name: engine\nVersion: 1.0\nAuthor: J\xf6rg\n".encode("latin-1")
    (dist_info(tmp_path, "engine", "1.0") / "METADATA").write_bytes(text)

    (package,) = installed([tmp_path])

    assert (package.version, package.has_metadata) == ("1.0", True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all")
def test_a_directory_that_may_not_be_read_has_no_packages(tmp_path: Path) -> None:
    dist_info(tmp_path / "site", "engine", "1.0")
    (tmp_path / "site").chmod(0)

    assert list(installed([tmp_path / "site"])) == []
    (tmp_path / "site").chmod(0o755)


def test_an_archive_on_the_path_has_no_packages(tmp_path: Path) -> None:
    """A zip file may stand on sys.path; it cannot be listed, whoever asks."""
    (tmp_path / "site.zip").write_bytes(b"PK")
    dist_info(tmp_path / "site", "engine", "1.0")

    names = [each.name for each in installed([tmp_path / "site.zip", tmp_path / "site"])]

    assert names == ["engine"]


def test_direct_url_says_where_it_came_from(tmp_path: Path) -> None:
    origin = {"url": "file:///srv/a%20b", "dir_info": {"editable": True}}
    folder = dist_info(tmp_path, "engine", "1.0", origin=origin)
    (folder / "INSTALLER").write_text("uv\n")

    (package,) = installed([tmp_path])

    assert package.origin.is_editable
    assert package.origin.source == Path("/srv/a b")
    assert package.installer == "uv"


@pytest.mark.parametrize(
    "text",
    ["[]", "{", '{"url": "file://[x"}', '{"url": 3}', '{"vcs_info": 1, "dir_info": []}'],
)
def test_a_damaged_direct_url_names_no_source(tmp_path: Path, text: str) -> None:
    (dist_info(tmp_path, "engine", "1.0") / "direct_url.json").write_text(text)

    (package,) = installed([tmp_path])

    assert (package.origin.source, package.origin.commit) == (None, None)
    assert not package.origin.is_editable


RECORD = """engine/__init__.py,sha256=abc,12
"engine/a, b.py",sha256=def,7
../../../bin/engine,sha256=ghi,200
engine/__pycache__/__init__.cpython-311.pyc,,
engine-1.0.dist-info/RECORD,,
"""


def test_record_is_csv(tmp_path: Path) -> None:
    files = list(read_record(dist_info(tmp_path, "engine", "1.0", record=RECORD)))

    assert [(file.path, file.size) for file in files[:2]] == [
        ("engine/__init__.py", 12),
        ("engine/a, b.py", 7),
    ]
    assert [file.is_in_site for file in files] == [True, True, False, True, True]


def test_the_digest_of_a_record_does_not_depend_on_the_installation(tmp_path: Path) -> None:
    one = dist_info(tmp_path / "a", "engine", "1.0", record=RECORD)
    lines = [line.replace("ghi", "other") for line in reversed(RECORD.splitlines())]
    other = dist_info(tmp_path / "b", "engine", "1.0", record="\n".join(lines))
    changed = dist_info(tmp_path / "c", "engine", "1.0", record=RECORD.replace("def", "xyz"))

    assert record_digest(one) == record_digest(other) != record_digest(changed)


def test_without_a_record_there_is_no_digest(tmp_path: Path) -> None:
    assert record_digest(dist_info(tmp_path, "engine", "1.0")) is None


@pytest.mark.parametrize(
    ("version", "text", "cuda", "is_for_cpu"),
    [
        pytest.param("2.9.0+cu128", "cuda: Optional[str] = '12.8'\n", "12.8", False, id="typed"),
        pytest.param("2.1.0", "cuda = '11.8'\nhip = None\n", "11.8", False, id="plain"),
        pytest.param("2.9.0+cpu", "cuda: Optional[str] = None\n", None, True, id="cpu"),
        pytest.param("2.9.0", "cuda = None\nhip: Optional[str] = '6.4'\n", None, False, id="hip"),
        pytest.param("2.9.0+cu128", None, "12.8", False, id="by-the-version"),
        pytest.param("2.9.0+cu130", None, "13.0", False, id="by-the-version-13"),
    ],
)
def test_a_torch_says_its_cuda_by_its_files(
    tmp_path: Path, version: str, text: str | None, cuda: str | None, *, is_for_cpu: bool
) -> None:
    torch(tmp_path, version, text)

    build = torch_build([tmp_path])

    assert build is not None
    assert (build.cuda, build.is_for_cpu) == (cuda, is_for_cpu)


def test_a_torch_of_pypi_without_its_file_says_nothing(tmp_path: Path) -> None:
    torch(tmp_path, "2.9.0", None)

    with pytest.raises(ValueError, match=r"torch/version\.py of PyTorch 2\.9\.0 cannot be read"):
        torch_build([tmp_path])
