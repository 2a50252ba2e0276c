# SPDX-License-Identifier: Apache-2.0
"""What tests with real processes share."""

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.scene import Scene


@pytest.fixture(autouse=True)
def _adopted_children_are_reaped() -> Iterator[None]:
    """A test that makes us a subreaper makes the orphans of every later one our children; dead ones would be found there."""
    yield
    while _reap_one():
        pass


def _reap_one() -> bool:
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG) is not None
    except ChildProcessError:
        return False


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    before = set(psutil.Process().children(recursive=True))
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    scene = Scene(tmp_path)
    yield scene
    assert scene.living() == []
    assert set(psutil.Process().children(recursive=True)) <= before, "not even a zombie is left"
    assert len(os.listdir("/proc/self/fd")) <= descriptors  # noqa: PTH208
