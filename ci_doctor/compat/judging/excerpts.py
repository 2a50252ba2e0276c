# SPDX-License-Identifier: Apache-2.0
"""Pure. The source of a place in one line."""

import ast
from typing import Final

from ci_doctor.compat.reading.parsed_module import ReadModule
from ci_doctor.model.shortened import shortened

_MOST: Final = 160


def excerpt(module: ReadModule, node: ast.AST, line: int) -> str:
    """The source of `node` from `line` on, at most 160 characters."""
    end = getattr(node, "end_lineno", line) or line
    text = " ".join(each.strip() for each in module.lines[line - 1 : end])
    return shortened(text, _MOST)
