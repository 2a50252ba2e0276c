# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: gives the finder the rules of CI_DOCTOR_PRELOAD_RULES, besides those that are installed."""

import os
import sys

import _ci_doctor_preload as finder  # type: ignore[import-not-found]

for _rule in os.environ.get("CI_DOCTOR_PRELOAD_RULES", "").split():
    _trigger, _, _modules = _rule.partition("=")
    _parts = [_module.partition(":") for _module in _modules.split(";")]
    _preloads = tuple(
        (_name, tuple(filter(None, _names.split(",")))) for _name, _, _names in _parts
    )
    finder.RULES[_trigger] = finder.RULES.get(_trigger, ()) + _preloads
if finder not in sys.meta_path:
    sys.meta_path.insert(0, finder)
