# SPDX-License-Identifier: Apache-2.0
"""Starts this interpreter's `site` step by step and tells which file costs what; run it with `-S -X importtime`.

On stderr, between the lines of `-X importtime`: `ci-doctor: begin FILE` and `ci-doctor: end FILE MICROSECONDS`, where FILE
is the path of a `.pth` file, `sitecustomize` or `usercustomize`. On stdout, the last line is JSON: what sys.path was when
sitecustomize was looked for, which file each of the two is, and the site directories.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CUSTOMIZE = ("sitecustomize", "usercustomize")


def start() -> "dict[str, Any]":
    """What `import site` does at an ordinary start; what is told of it."""
    import site

    seen: dict[str, Any] = {"path": None, "ran": {}}
    add, customize = site.addpackage, {name: getattr(site, f"exec{name}") for name in CUSTOMIZE}

    def addpackage(sitedir: str, name: str, known_paths: "Any") -> "Any":
        return told(os.path.join(sitedir, name), lambda: add(sitedir, name, known_paths))  # noqa: PTH118 - as site does

    def executing(name: str) -> "Any":
        def execute() -> None:
            if seen["path"] is None:
                seen["path"] = list(sys.path)
            told(name, customize[name])
            module = sys.modules.get(name)
            seen["ran"][name] = getattr(module, "__file__", None) if module else None

        return execute

    site.addpackage = addpackage  # type: ignore[assignment]
    site.execsitecustomize, site.execusercustomize = (executing(name) for name in CUSTOMIZE)
    site.main()
    seen["user_site"] = bool(site.ENABLE_USER_SITE)
    seen["user_dir"] = site.USER_SITE
    return seen


def told(name: str, do: "Any") -> "Any":
    """Do it, and say when it began, ended, and how many microseconds it took."""
    os.write(2, f"ci-doctor: begin {name}\n".encode("utf-8", "surrogateescape"))
    began = time.perf_counter()
    try:
        return do()
    finally:
        spent = round((time.perf_counter() - began) * 1e6)
        os.write(2, f"ci-doctor: end {name} {spent}\n".encode("utf-8", "surrogateescape"))


if __name__ == "__main__":
    if not sys.flags.isolated:
        del sys.path[0]  # this program's folder; it is not there yet when `site` is imported
    del sys.argv[1:]
    result = start()
    import json

    sys.stdout.flush()
    os.write(1, b"\n" + json.dumps(result).encode() + b"\n")
    os._exit(0)
