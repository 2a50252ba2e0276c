# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of findings about one package calling another."""

from typing import Final

from ci_doctor.model.finding import Rule, Severity

MODULE_GONE: Final = Rule(
    id="compat/module-gone",
    severity=Severity.ERROR,
    meaning=(
        "The caller imports a module that the callee does not have. A warning if `except Exception` "
        "around it hides the ImportError."
    ),
    remedy="Import it from its new place, or pin a version of the callee that has it.",
)
NAME_GONE: Final = Rule(
    id="compat/name-gone",
    severity=Severity.ERROR,
    meaning=(
        "The caller imports a name that the callee's module does not bind: neither by a definition "
        "or an import, nor by `__getattr__` or a star import."
    ),
    remedy="Import it from its new place, or pin a version of the callee that has it.",
)
ATTRIBUTE_GONE: Final = Rule(
    id="compat/attribute-gone",
    severity=Severity.ERROR,
    meaning=(
        "The caller reads an attribute that the callee's module or class does not have. The class "
        "and all classes above it are known, none of them makes names at run time, and no line of "
        "either package assigns the name from elsewhere."
    ),
    remedy="Use what replaced the attribute, or pin a version of the callee that has it.",
)
CALL: Final = Rule(
    id="compat/call",
    severity=Severity.ERROR,
    meaning=(
        "A call of the caller raises TypeError, because its arguments do not fit the parameters of "
        "the callee's definition. There are too many positional arguments, one comes by keyword "
        "too, a keyword is unknown, or an argument is missing."
    ),
    remedy="Change the call as the definition asks, or pin a version of the callee that takes it.",
)
OVERRIDE: Final = Rule(
    id="compat/override",
    severity=Severity.ERROR,
    meaning=(
        "The caller overrides a method of the callee, and the callee calls that method with "
        "arguments that the override does not take."
    ),
    remedy="Give the override the parameters of the method that it overrides.",
)
ABSTRACT: Final = Rule(
    id="compat/abstract",
    severity=Severity.ERROR,
    meaning=(
        "The caller makes an instance of its own class, and a class of the callee above it has an "
        "abstract method that nothing implements: Python raises TypeError. A warning if no line of the "
        "caller makes such an instance: the callee may."
    ),
    remedy="Implement the method in the caller's class.",
)
NOTHING_RESOLVED: Final = Rule(
    id="compat/nothing-resolved",
    severity=Severity.WARNING,
    meaning="No place of the caller could be resolved to a definition in the callee, so nothing proves that it works.",
    remedy=(
        "Check that both are the right packages, and that the callee's directory holds the package "
        "that the caller imports. This never counts as a pass."
    ),
)
OPEN_IMPORT: Final = Rule(
    id="compat/open-import",
    severity=Severity.WARNING,
    meaning=(
        "A module of the caller begins with an import that nobody can judge: the name may come from a "
        "compiled module, or be made at run time. A caller with such an import does not pass."
    ),
    remedy="Run the import once with both packages installed: `python -c 'import PACKAGE'`.",
)
UNREAD: Final = Rule(
    id="compat/unread",
    severity=Severity.WARNING,
    meaning="A file that concerns the callee could not be read or parsed. Its places were not judged. A caller with "
    "such a file does not pass.",
    remedy="Repair the file, or check by hand what it calls.",
)

RULES: Final[tuple[Rule, ...]] = (
    MODULE_GONE,
    NAME_GONE,
    ATTRIBUTE_GONE,
    CALL,
    OVERRIDE,
    ABSTRACT,
    NOTHING_RESOLVED,
    OPEN_IMPORT,
    UNREAD,
)
