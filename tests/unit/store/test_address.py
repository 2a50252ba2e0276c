"""What `--store` may name."""

from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.store.directory_store import is_remote, open_store


@pytest.mark.parametrize("address", ["/a/b%20c", "file:///a/b%2520c", "file://localhost/a/b%2520c"])
def test_a_directory_is_named_by_path_or_file_url(address: str) -> None:
    store = open_store(address, {}, timeout_s=1)

    assert store.location == "/a/b%20c"


def test_a_relative_directory_is_one_below_the_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert open_store("cache", {}, timeout_s=1).location == str(tmp_path / "cache")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://example.com/x",
        "https://example.com/x",
        "ftp://x",
        "memory://",
        "S3 ://x",
        "file://host/x",
        "s3://",
        "gs:///x",
        "az://account",
        "s3://user:hunter2@bucket/x",
        "az://account/container?sig=hunter2",
    ],
)
def test_any_other_address_is_refused_without_its_secrets(address: str) -> None:
    with pytest.raises(UsageError) as raised:
        open_store(address, {}, timeout_s=1)

    assert "hunter2" not in f"{raised.value.message} {raised.value.hint}"


def test_a_directory_needs_no_network() -> None:
    assert [
        is_remote(address) for address in ("x", "file:///x", "s3://b", "gs://b", "az://a/c")
    ] == [
        False,
        False,
        True,
        True,
        True,
    ]
