"""Where a user's programs keep what they can make again."""

import os
from pathlib import Path

import pytest

from ci_doctor.checks.leftovers.user_cache import expanded, user_cache


def test_the_cache_is_where_its_variable_says_or_in_the_home_directory() -> None:
    assert user_cache({"XDG_CACHE_HOME": "/fast", "HOME": "/home/ci"}) == Path("/fast")
    assert user_cache({"HOME": "/home/ci"}) == Path("/home/ci/.cache")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_a_home_directory_has_a_path_that_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    # As in a container that runs as a number: /etc/passwd does not know it.
    os.setresuid(4_000_000, 0, 0)
    try:
        assert expanded("~/.cache") == Path("~/.cache")
    finally:
        os.setresuid(0, 0, 0)
