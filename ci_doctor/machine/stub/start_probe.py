# SPDX-License-Identifier: Apache-2.0
"""Acts on this interpreter: runs its `site` step by step and prints the cost of each file.

Run it with `-S -X importtime`. On stderr, between the lines of `-X importtime`: `ci-doctor: begin
FILE`, `ci-doctor: path DIRECTORIES` and `ci-doctor: end FILE MICROSECONDS`; FILE is the path of a `.pth` file, `sitecustomize` or
`usercustomize`. On stdout, the last line is JSON: sys.path when sitecustomize was looked for, the
file of each of the two, the site directories, and which of the files wrote to stdout.
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

    result: dict[str, Any] = {"path": None, "ran": {}, "printing": printing}
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
                os.write(2, os.fsencode(f"ci-doctor: path {os.pathsep.join(sys.path)}\n"))
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


printing: "list[str]" = []


def timed(name: str, do: "Any") -> "Any":
    """Do it, and write the beginning, the end and the microseconds to stderr.

    Time in which this thread waited for a CPU does not count. `site` catches each Exception; what
    passes it, such as SystemExit, ends the interpreter, and then no end is written.
    """
    os.write(2, f"ci-doctor: begin {name}\n".encode("utf-8", "surrogateescape"))
    printed = stdout_size()
    delayed = cpu_wait()
    worked = time.thread_time()
    began = time.perf_counter()
    done = do()
    spent = time.perf_counter() - began - (cpu_wait() - delayed)
    if stdout_size() > printed:
        printing.append(name)
    # On a busy machine the kernel's count of the wait may come late: work that was done counts.
    micros = round(max(time.thread_time() - worked, spent) * 1e6)
    os.write(2, f"ci-doctor: end {name} {micros}\n".encode("utf-8", "surrogateescape"))
    return done


def cpu_wait() -> float:
    """Seconds that this thread was ready to run and had no CPU; 0 if the kernel does not count.

    It is the second figure of schedstat (Linux sched-stats.rst).
    """
    try:
        with open("/proc/self/schedstat", "rb") as file:  # noqa: PTH123 - pathlib is not loaded
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def stdout_size() -> int:
    """Bytes that stand on stdout so far, if that is a file; else 0."""
    try:
        sys.stdout.flush()
        return os.fstat(1).st_size
    except (AttributeError, OSError, ValueError):  # closed, or replaced
        return 0


if __name__ == "__main__":
    if not sys.flags.isolated:
        del sys.path[0]  # this program's folder; it is not there yet when `site` is imported
    del sys.argv[1:]
    result = start()
    import json

    sys.stdout.flush()
    os.write(1, b"\n" + json.dumps(result).encode() + b"\n")
    os._exit(0)
