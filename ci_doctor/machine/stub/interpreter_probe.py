# SPDX-License-Identifier: Apache-2.0
"""Prints how this interpreter was started, as a Python literal on the last line of stdout.

It imports only what every start has imported: another module may be shadowed, and that must not look
like a broken interpreter.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def describe() -> "dict[str, Any]":
    """What no file shows: the paths, the flags, and the modules that a file may hide."""
    loaded = set(sys.modules)
    site = sys.modules.get("site")
    return {
        "version": ".".join(str(part) for part in sys.version_info[:3]),
        "full_version": _full_version(),
        "implementation": sys.implementation.name,
        "cache_tag": sys.implementation.cache_tag or "",
        "executable": sys.executable or "",
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "path": _path(),
        "stdlib": os.path.dirname(os.__file__),  # noqa: PTH120 - as os does
        "is_safe_path": bool(getattr(sys.flags, "safe_path", False)),
        "optimize": sys.flags.optimize,
        "user_dir": getattr(site, "USER_SITE", None),
        "suffixes": _suffixes(),
        "glibc": _glibc(),
        "machine": os.uname().machine,
        "hideable": sorted(_hideable(loaded)),
    }


def _path() -> "list[str]":
    """sys.path; without its first entry, which is the directory of this file."""
    entries = [str(entry) for entry in sys.path]
    return entries if getattr(sys.flags, "safe_path", False) else entries[1:]


def _full_version() -> str:
    """As PEP 508 has `implementation_version`."""
    info = sys.version_info
    text = "%d.%d.%d" % info[:3]  # noqa: UP031 - old interpreters run this
    if info[3] != "final":
        text += info[3][0] + str(info[4])
    return text


def _suffixes() -> "list[str]":
    """The endings of extension modules, such as `.cpython-312-x86_64-linux-gnu.so`."""
    import _imp

    return list(_imp.extension_suffixes())


def _glibc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        return ""


def _hideable(loaded: "set[str]") -> "set[str]":
    """Modules of the standard library that an earlier file on sys.path replaces."""
    import _imp

    names = set(getattr(sys, "stdlib_module_names", ()))
    names.difference_update(sys.builtin_module_names, loaded)
    frozen_names = getattr(_imp, "_frozen_module_names", None)
    if frozen_names is not None:
        names.difference_update(frozen_names())
    return names


if __name__ == "__main__":
    # What a start file has printed may lack the end of its line.
    sys.stdout.write("\n" + ascii(describe()) + "\n")
