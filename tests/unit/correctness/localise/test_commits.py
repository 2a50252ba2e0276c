# SPDX-License-Identifier: Apache-2.0
"""The range of commits that a search is asked for."""

from pathlib import Path

import pytest

from ci_doctor.correctness.localise.commits import read_range
from ci_doctor.errors import UsageError
from tests.support.git_repository import git, make_repository


def test_swapped_ends_are_named_in_their_order(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a": "1"})
    git(tmp_path, "tag", "good")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message=next")

    with pytest.raises(UsageError) as caught:
        read_range(tmp_path, "HEAD..good")

    assert caught.value.hint == "write good..HEAD, the good end first"
