# SPDX-License-Identifier: Apache-2.0
"""Pure. Conditions whose truth is known without running them."""

import ast
from typing import Final

_FALSE_TESTS: Final = {
    "TYPE_CHECKING",
    "typing.TYPE_CHECKING",
    "t.TYPE_CHECKING",
    "sys.platform == 'win32'",
    "sys.platform == 'darwin'",
    "sys.platform.startswith('win')",
    "os.name == 'nt'",
    "platform.system() == 'Windows'",
    "platform.system() == 'Darwin'",
}
_IS_MAIN: Final = "__name__ == '__main__'"


def static_truth(
    test: ast.expr, *, version: tuple[int, int] = (3, 12), is_main: bool = False
) -> bool | None:
    """What a condition is on Linux under that Python; None if it is not known before running."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        truth = static_truth(test.operand, version=version, is_main=is_main)
        return None if truth is None else not truth
    if not isinstance(test, ast.Name | ast.Attribute | ast.Compare | ast.Call):
        return None
    text = ast.unparse(test)
    if text == _IS_MAIN:
        return is_main
    if text in _FALSE_TESTS:
        return False
    return _version_truth(test, version)


def _version_truth(test: ast.expr, version: tuple[int, int]) -> bool | None:
    if not isinstance(test, ast.Compare) or ast.unparse(test.left) != "sys.version_info":
        return None
    try:
        wanted = ast.literal_eval(test.comparators[0])
        bound = tuple(int(part) for part in wanted)
    except (ValueError, TypeError):
        return None
    match test.ops[0]:
        case ast.GtE() | ast.Gt():
            return version >= bound[:2]
        case ast.Lt() | ast.LtE():
            return version < bound[:2]
        case _:
            return None
