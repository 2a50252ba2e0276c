# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest

from ci_doctor.identity.origin import is_editable, read_origin, source_directory, table_of


def test_an_installation_from_an_index_has_no_origin(tmp_path: Path) -> None:
    assert read_origin(tmp_path) == {}


@pytest.mark.parametrize("text", ["[]", "{", '"file:///src"'])
def test_a_damaged_file_is_no_origin(tmp_path: Path, text: str) -> None:
    (tmp_path / "direct_url.json").write_text(text)

    assert read_origin(tmp_path) == {}


def test_the_source_of_an_editable_installation_is_unquoted(tmp_path: Path) -> None:
    origin = {"url": "file:///a%20b/src", "dir_info": {"editable": True}}
    (tmp_path / "direct_url.json").write_text(json.dumps(origin))

    assert is_editable(read_origin(tmp_path))
    assert source_directory(origin) == Path("/a b/src")


@pytest.mark.parametrize("origin", [{"dir_info": None}, {"dir_info": []}, {"url": "https://a.b/c"}])
def test_what_is_no_directory_is_neither_editable_nor_a_source(origin: dict[str, object]) -> None:
    assert not is_editable(origin)
    assert source_directory(origin) is None
    assert table_of(origin, "dir_info") == {}


def test_an_address_that_cannot_be_read_is_no_directory() -> None:
    assert source_directory({"url": "file://[x"}) is None
