# SPDX-License-Identifier: Apache-2.0
"""Which names of tags are releases."""

import pytest

from ci_doctor.environment.release_names import is_release


@pytest.mark.parametrize(
    "tag", ["1.0", "v1.2.3", "V2", "release-1.2", "pkg/v1.0rc1", "my-pkg-1.0.post1", "v1.0+cu13"]
)
def test_releases(tag: str) -> None:
    assert is_release(tag)


@pytest.mark.parametrize(
    "tag",
    [
        *("nightly", "nightly-cu13", "v0.5.0-cu13", "release", "cu13", ""),
        *("nightly-2026-04-22", "nightly-2026-04", "nightly-20260422", "nightly-13", "2026-04"),
    ],
)
def test_others(tag: str) -> None:
    assert not is_release(tag)
