# SPDX-License-Identifier: Apache-2.0
"""What tests with real processes share."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from ci_doctor.model.outcome import Report
from ci_doctor.render import html
from tests.support.plugin_workplace import Workplace
from tests.support.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.browser import Opened


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


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    """A job with the plugin, without a ci-doctor."""
    return Workplace(tmp_path)


@pytest.fixture
def real(workplace: Workplace) -> Workplace:
    """A job with the plugin and the real ci-doctor."""
    workplace.real_ci_doctor()
    return workplace


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """A browser for a whole file: longer, its event loop would stand in the way of other tests."""
    from tests.support.browser import a_browser

    with a_browser() as running:
        yield running


@pytest.fixture
def open_page(browser: "Browser", tmp_path: Path) -> Iterator[Any]:
    """`open_page(report, width=…, scheme=…)` writes the page and opens it."""
    from tests.support.browser import Opened

    contexts = []

    def opened(
        report: Report, *, width: int = 1600, scheme: Any = "light", script: bool = True
    ) -> "Opened":
        path = tmp_path / "report.html"
        path.write_text(html.render(report), encoding="utf-8")
        viewport: Any = {"width": width, "height": 900}
        contexts.append(
            browser.new_context(viewport=viewport, color_scheme=scheme, java_script_enabled=script)
        )
        return Opened(contexts[-1].new_page(), path)

    yield opened
    for context in contexts:
        context.close()
