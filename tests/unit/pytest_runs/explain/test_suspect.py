"""The class of the exception, from the message of a failure."""

import pytest

from ci_doctor.pytest_runs.trial import error_class


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("assert 1 == 2\n  where", "AssertionError"),
        ("AssertionError: no\nassert 1", "AssertionError"),
        ("urllib.error.URLError: <urlopen error>", "URLError"),
        ("KeyError: 'x'", "KeyError"),
        ("RuntimeError", "RuntimeError"),
        ("Failed: DID NOT RAISE", "Failed"),
        ("its process was ended", None),
        ("", None),
        (None, None),
    ],
)
def test_the_class_stands_before_the_colon(message: str | None, name: str | None) -> None:
    assert error_class(message) == name
