# SPDX-License-Identifier: Apache-2.0
"""Tokens and addresses come from variables and files, and are shown nowhere."""

from pathlib import Path

import pytest

from ci_doctor.notify.secret import SecretValue, read_secret


def test_a_variable_and_a_file_lose_the_white_space_around_the_value(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret-1\n")

    assert read_secret("T", None, {"T": " secret-1\n"}) == SecretValue("secret-1")
    assert read_secret(None, tmp_path / "token", {}) == SecretValue("secret-1")


@pytest.mark.parametrize("environ", [{}, {"T": ""}, {"T": " "}])
def test_a_variable_without_a_value_is_a_reason(environ: dict[str, str]) -> None:
    assert read_secret("T", None, environ) == "$T is not set"


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "empty"), (b"a\nb", "one line"), (b"x" * 70_000, "one line")]
)
def test_a_file_that_holds_no_secret_is_a_reason(
    content: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / "token").write_bytes(content)

    found = read_secret(None, tmp_path / "token", {})

    assert isinstance(found, str)
    assert words in found


def test_a_missing_file_is_a_reason(tmp_path: Path) -> None:
    found = read_secret(None, tmp_path / "none", {})

    assert found == f"{tmp_path / 'none'} cannot be read: No such file or directory"


def test_its_representation_does_not_hold_it() -> None:
    assert "secret-1" not in f"{SecretValue('secret-1')!r} {SecretValue('secret-1')}"
