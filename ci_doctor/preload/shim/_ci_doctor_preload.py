# SPDX-License-Identifier: Apache-2.0
# managed-by: ci-doctor preload
"""Watches for the triggers of the preload rules: this module is itself the finder on sys.meta_path."""
# Every start of the interpreter pays for this file, so it imports nothing but sys, defines no class, and explains itself
# in comments. CI_DOCTOR_PRELOAD=0 switches it off. `ci-doctor` wrote it; edit the rules with `ci-doctor`, not here.

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What to import, and which attributes to touch, before each name.
# ci-doctor rules: begin
RULES: "dict[str, tuple[tuple[str, tuple[str, ...]], ...]]" = {}
# ci-doctor rules: end


def find_spec(name: str, path: "Any" = None, target: "Any" = None) -> "Any":
    """The spec that the other finders give for a trigger, made to preload when it is loaded; None for any other name."""
    if name in RULES:
        try:
            # __import__ is eager even where `import` is made lazy (PEP 810).
            return __import__("_ci_doctor_preload_rt").spec_for(RULES, name, path, target)
        except Exception:  # noqa: BLE001, S110 - a process may outlive the removal of the shim: the others do their work
            pass
    return None


sys.meta_path.insert(0, sys.modules[__name__])
