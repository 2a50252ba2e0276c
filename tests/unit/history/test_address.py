from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.history.address import database_address


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_the_spellings_of_postgresql_are_one(scheme: str) -> None:
    address = database_address(f"{scheme}://ci:secret@db/history")

    assert address.url == "postgresql+psycopg://ci:secret@db/history"
    assert address.label == "postgresql db/history"


def test_a_path_and_a_url_of_sqlite_are_files() -> None:
    assert database_address("a/h.sqlite").file == Path("a/h.sqlite")
    assert database_address("sqlite:////tmp/h.sqlite").file == Path("/tmp/h.sqlite")


def test_another_database_is_an_error() -> None:
    with pytest.raises(UsageError, match="mysql://"):
        database_address("mysql://db/history")


@pytest.mark.parametrize("text", ["", ":memory:"])
def test_a_database_that_would_be_lost_at_once_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="names no file"):
        database_address(text)
