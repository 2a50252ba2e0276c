# SPDX-License-Identifier: Apache-2.0
"""Acts on this interpreter: runs its `site` step by step and prints the time of each file.

Run it with `-S`. On stderr: `ci-doctor: begin FILE`, `ci-doctor: path DIRECTORIES` and `ci-doctor: end
MICROSECONDS`; FILE is the path of a `.pth` file, `sitecustomize` or `usercustomize`. FILE and DIRECTORIES are
literals of Python, so that a path with a newline stays on its line. On stdout, the last line is JSON: sys.path
when sitecustomize was looked for, and the file of each of the two.
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
                # For a sitecustomize that never comes back.
                os.write(2, f"ci-doctor: path {sys.path!a}\n".encode())
            timed(name, customize)
            # None if the module has removed itself.
            module = sys.modules.get(name)
            result["ran"][name] = getattr(module, "__file__", None) if module else None

        return execute

    site.addpackage = addpackage  # type: ignore[assignment]
    site.execsitecustomize = executing("sitecustomize")
    site.execusercustomize = executing("usercustomize")
    site.main()
    return result


def timed(name: str, do: "Any") -> "Any":
    """Do it, and write the beginning, the end and the microseconds to stderr.

    `site` catches each Exception; what passes it, such as SystemExit, ends the interpreter, and then
    no end is written.
    """
    os.write(2, f"ci-doctor: begin {name!a}\n".encode())
    began = time.perf_counter()
    done = do()
    micros = round((time.perf_counter() - began) * 1e6)
    os.write(2, f"ci-doctor: end {micros}\n".encode())
    return done


if __name__ == "__main__":
    if not sys.flags.isolated:
        del sys.path[0]  # this program's folder; it is not there yet when `site` is imported
    del sys.argv[1:]
    result = start()
    import json

    sys.stdout.flush()
    os.write(1, b"\n" + json.dumps(result).encode() + b"\n")
    os._exit(0)
