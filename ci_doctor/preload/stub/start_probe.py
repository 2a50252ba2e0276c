# SPDX-License-Identifier: Apache-2.0
"""Acts on this interpreter: runs its `site` step by step and prints the cost of each file.

Run it with `-S -X importtime`. On stderr, between the lines of `-X importtime`: `ci-doctor: begin
FILE` and `ci-doctor: end FILE MICROSECONDS`; FILE is the path of a `.pth` file, `sitecustomize` or
`usercustomize`. On stdout, the last line is JSON: sys.path when sitecustomize was looked for, the
file of each of the two, and the site directories.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def start() -> "dict[str, Any]":
    """Do what `import site` does at an ordinary start; returns the result for stdout."""
    import site

    result: dict[str, Any] = {"path": None, "ran": {}}
    add = site.addpackage

    def addpackage(sitedir: str, name: str, known_paths: "Any") -> "Any":
        path = os.path.join(sitedir, name)  # noqa: PTH118 - as site does
        return timed(path, lambda: add(sitedir, name, known_paths))

    def executing(name: str) -> "Any":
        customize = getattr(site, f"exec{name}")

        def execute() -> None:
            if result["path"] is None:
                result["path"] = list(sys.path)
            timed(name, customize)
            # None if the module has removed itself.
            module = sys.modules.get(name)
            result["ran"][name] = getattr(module, "__file__", None) if module else None

        return execute

    site.addpackage = addpackage  # type: ignore[assignment]
    site.execsitecustomize = executing("sitecustomize")
    site.execusercustomize = executing("usercustomize")
    site.main()
    result["user_site"] = bool(site.ENABLE_USER_SITE)
    result["user_dir"] = site.USER_SITE
    return result


def timed(name: str, do: "Any") -> "Any":
    """Do it, and write the beginning, the end and the microseconds to stderr."""
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
