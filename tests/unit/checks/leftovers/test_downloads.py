"""Downloads that were cut off."""

import os
from pathlib import Path

from ci_doctor.checks.leftovers.downloads import CHECK, hub_cache
from tests.support.checks import check_context


def test_an_old_part_of_a_file_is_a_note_with_its_size(tmp_path: Path) -> None:
    blobs = tmp_path / "hub" / "models--org--m" / "blobs"
    blobs.mkdir(parents=True)
    old = blobs / "abc.1f.incomplete"
    for path in (old, blobs / "def.incomplete", blobs / "whole"):
        path.write_bytes(bytes(20_000))
    os.utime(old, (0, 0))
    os.utime(blobs / "whole", (0, 0))

    (found,) = CHECK.run(check_context(tmp_path, environ={"HF_HOME": str(tmp_path)})).problems

    assert found.finding.summary.startswith("1 unfinished download in ")
    assert str(old) in (found.finding.evidence[0].excerpt or "")


def test_no_cache_is_ok(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path, environ={"HF_HOME": str(tmp_path)}))

    assert result.summary == f"there is no {tmp_path}/hub"


def test_the_place_of_the_cache_is_as_the_library_has_it() -> None:
    assert hub_cache({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}) == Path("/a")
    assert hub_cache({"HF_HOME": "/b"}) == Path("/b/hub")
    assert hub_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/hub")
    assert hub_cache({"HOME": "/d"}) == Path("/d/.cache/huggingface/hub")
