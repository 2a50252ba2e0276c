# SPDX-License-Identifier: Apache-2.0
# managed-by: ci-doctor preload
"""Acts on other interpreters: finds the triggers of the preload rules. The module is the finder."""
# Every start of the interpreter pays for this file: it imports only sys, defines no class, and
# explains itself in comments. CI_DOCTOR_PRELOAD=0 switches it off. Change the rules with
# `ci-doctor`, not here.

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What to import, and which attributes to touch, before each name.
# ci-doctor rules: begin
RULES: "dict[str, tuple[tuple[str, tuple[str, ...]], ...]]" = {}
# ci-doctor rules: end


def find_spec(name: str, path: "Any" = None, target: "Any" = None) -> "Any":
    """The spec of the other finders for a trigger, set to preload; None for any other name."""
    if name in RULES:
        try:
            # __import__ is eager even if `import` is made lazy (PEP 810).
            return __import__("_ci_doctor_preload_rt").spec_for(RULES, name, path, target)
        # A process may outlive the removal of the shim: the other finders do their work.
        except Exception:  # noqa: BLE001, S110
            pass
    return None


sys.meta_path.insert(0, sys.modules[__name__])
