# SPDX-License-Identifier: Apache-2.0
"""Pure. A cache moved to another directory: the files in which its path stands are rewritten.

Triton's FileCacheManager (3.9, runtime/cache.py) writes a `__grp__NAME.json` per kernel, with the
absolute path of each file of the kernel. The files always lie beside it, so the new paths follow
from where it lies: in a cache of Triton's own, and in those that TorchInductor and vLLM nest in
theirs.
"""

import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from ci_doctor.caches.families.family import Family, Rewrite

# A group file names a dozen files. What is larger is something else.
_LIMIT = 1 << 20


def relocate(family: Family, new_root: str) -> Callable[[str, bytes], bytes] | None:
    """From a file's relative path and its content to its content below `new_root` (absolute).

    None: no file of this family needs it.
    """
    if family.rewrite is not Rewrite.TRITON_GROUPS:
        return None
    root = PurePosixPath(new_root)
    return lambda path, content: _group(root / path, content) if _is_group(path) else content


def _is_group(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("__grp__") and name.endswith(".json")


def _group(file: PurePosixPath, content: bytes) -> bytes:
    """The group file with the paths of its files beside it.

    A path into another directory stays: Triton would never have written it. What is no group stays
    too, which Triton takes as a miss.
    """
    if len(content) > _LIMIT:
        return content
    try:
        group: Any = json.loads(content)
        children = group["child_paths"]
        group["child_paths"] = {name: _child(file, path) for name, path in children.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return content
    return json.dumps(group).encode()


def _child(file: PurePosixPath, path: str) -> str:
    old = PurePosixPath(path)
    return str(file.parent / old.name) if old.parent.name == file.parent.name else path
