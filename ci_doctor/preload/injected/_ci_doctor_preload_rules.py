# SPDX-License-Identifier: Apache-2.0
"""Acts on other interpreters: gives the finder the rules of CI_DOCTOR_PRELOAD_RULES too."""

import os
import sys

import _ci_doctor_preload as finder  # type: ignore[import-not-found]

for _rule in os.environ.get("CI_DOCTOR_PRELOAD_RULES", "").split():
    _trigger, _, _modules = _rule.partition("=")
    _preloads = []
    for _part in _modules.split(";"):
        _name, _, _names = _part.partition(":")
        _preloads.append((_name, tuple(filter(None, _names.split(",")))))
    # Besides the rules that are installed.
    finder.RULES[_trigger] = finder.RULES.get(_trigger, ()) + tuple(_preloads)
if finder not in sys.meta_path:
    sys.meta_path.insert(0, finder)
