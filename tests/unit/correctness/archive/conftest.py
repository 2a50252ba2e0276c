# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.correctness.archive.archive import Archive
from tests.support.s3_server import BUCKET, s3_server


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "archive", days=30, limit=1 << 30)


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environ:
        yield environ


@pytest.fixture(params=["directory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path | str:  # fmt: skip
    if request.param == "directory":
        return tmp_path / "archive"
    for name, value in request.getfixturevalue("s3").items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.name}"
