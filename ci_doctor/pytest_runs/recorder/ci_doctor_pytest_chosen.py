# SPDX-License-Identifier: Apache-2.0
"""Runs of chosen tests: what the pytest plugin beside this file changes for them.

It runs in the interpreter of the tests, Python 3.8 or later.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ci_doctor_pytest_lines import clean  # type: ignore[import-not-found]  # beside this file

if TYPE_CHECKING:
    import pytest

# Plugins of pytest's cache. A run of some tests must not be narrowed by the failures of the last run
# of all, nor be taken for it by the next one.
_CACHING = ("lfplugin", "lfplugin-collwrapper", "lfplugin-collskip", "nfplugin", "stepwiseplugin")
# Options that would stop a run of chosen tests early, narrow it, or write over the files of the run
# of all tests.
_CHANGED = {
    "maxfail": 0,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "stepwise_skip": False,
    "xmlpath": None,
    "htmlpath": None,
    "report_log": None,
    "json_report": False,
    "allure_report_dir": None,
}


def change_options(config: Any) -> None:
    for name, value in _CHANGED.items():
        if hasattr(config.option, name):
            setattr(config.option, name, value)


def leave_the_cache_alone(config: Any) -> None:
    for name in _CACHING:
        plugin = config.pluginmanager.get_plugin(name)
        if plugin is not None:
            config.pluginmanager.unregister(plugin)


def narrow(config: Any, names: list[str]) -> None:
    """Collect the files of these tests alone, if each of them is a file."""
    root = str(config.rootdir) if not hasattr(config, "rootpath") else str(config.rootpath)
    files = [os.path.join(root, name.split("::")[0]) for name in names]
    if all(os.path.isfile(file) for file in files):
        config.args = list(dict.fromkeys(files))


def choose(config: Any, items: list[pytest.Item], names: list[str]) -> None:
    """Keep the tests of these names, in their order."""
    by_name: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_name.setdefault(clean(item.nodeid), []).append(item)
    kept: list[pytest.Item] = []
    for name in dict.fromkeys(names):
        kept += by_name.pop(name, [])
    left_out = [item for each in by_name.values() for item in each]
    items[:] = kept
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def leave_out(config: Any, items: list[pytest.Item], names: list[str]) -> None:
    """Keep the tests that have none of these names."""
    done = set(names)
    left_out = [item for item in items if clean(item.nodeid) in done]
    items[:] = [item for item in items if clean(item.nodeid) not in done]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def narrowing(config: Any) -> str | None:
    """The option by which the failures of an earlier run leave tests out of this one, if any does."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return None
    for name, key, word in (("lf", "lastfailed", "--lf"), ("stepwise", "stepwise", "--sw")):
        if getattr(config.option, name, False) and cache.get("cache/" + key, None):
            return word
    return None
