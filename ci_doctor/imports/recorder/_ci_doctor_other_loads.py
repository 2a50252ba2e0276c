# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: records modules that are executed in another way than most.

These are reloaded ones, and those of archives up to Python 3.9, whose zipimport has no
`exec_module`.
"""

import sys

from _ci_doctor_trace import event, place, thread, unframed  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

bootstrap: "Any" = sys.modules["_frozen_importlib"]  # importlib._bootstrap
modules: "dict[str, Any]" = sys.modules
original_exec = bootstrap._exec
original_old_load: "Any" = getattr(bootstrap, "_load_backward_compatible", None)


def _exec(spec: "Any", module: "Any") -> "Any":
    """Stands for importlib's, which `importlib.reload` calls, and runpy of some versions."""
    event("reload", spec.name, *place())
    return original_exec(spec, module)


def _load_backward_compatible(spec: "Any") -> "Any":
    """Stands for importlib's, for loaders without `exec_module`: zipimport's up to Python 3.9."""
    entry = next((entry for entry in reversed(thread.loading) if entry[0] == spec.name), None)
    if entry is None:
        return original_old_load(spec)
    entry[1] = spec
    module = original_old_load(spec)
    if entry[1] is spec:
        entry[1] = modules.get(spec.name)
    return module


def zip_exec(code: "Any", namespace: "Any") -> None:
    """Stands for `exec` in a zipimport that has no `exec_module`: the module is in sys.modules."""
    if thread.loading and thread.loading[-1][0] == namespace.get("__name__"):
        thread.loading[-1][1] = modules.get(namespace["__name__"])
    exec(code, namespace)


bootstrap._exec = unframed(_exec)
if original_old_load is not None:
    bootstrap._load_backward_compatible = unframed(_load_backward_compatible)
if "zipimport" in modules and not hasattr(modules["zipimport"].zipimporter, "exec_module"):
    modules["zipimport"].exec = unframed(zip_exec)
