# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether an import statement reads a file of the repository."""

import ast
from pathlib import PurePosixPath


def comes_from(statement: ast.ImportFrom, importer: str, definer: str) -> bool:
    """Whether `from M import X` in the file `importer` may give what the file `definer` defines.

    M is the module of that file, or a package above it, which hands its names on.
    """
    module = PurePosixPath(*(statement.module or "").split("."))
    if statement.level:
        folders = PurePosixPath(importer).parents
        if statement.level > len(folders):
            return False
        base = folders[statement.level - 1] / module
        return definer == f"{base}.py" or PurePosixPath(definer).is_relative_to(base)
    path = f"/{definer}"
    return path.endswith(f"/{module}.py") or f"/{module}/" in path
