# SPDX-License-Identifier: Apache-2.0
"""Pure. Which files of the repository a `source` may mean."""

import posixpath
import re
from collections.abc import Iterator
from typing import Final

# Spellings of "the directory of this script", with what they need after them.
_DIRNAME: Final = r"\$\(\s*dirname\s+(?:--\s+)?(?:\$\(\s*(?:realpath|readlink)[^()]*\)|[^()]*)\s*\)"
_OWN_DIRECTORY: Final = re.compile(
    rf"""\$\(\s*cd\s+[^()]*?(?:{_DIRNAME}|\$\{{(?:BASH_SOURCE(?:\[0\])?|0)%/\*\}})[^()]*\)
    | {_DIRNAME}
    | \$\{{(?:BASH_SOURCE(?:\[0\])?|0)%/\*\}}
    """,
    re.VERBOSE,
)
_VARIABLE: Final = re.compile(r"^\$\{?(\w+)\}?")
_ASSIGNMENT: Final = (
    r"(?m)^[ \t]*(?:readonly\s+|export\s+|local\s+|declare\s+(?:-\w+\s+)?)?{}=(.+)$"
)


def candidates(word: str, text: str, file: str) -> Iterator[str]:
    """Paths, relative to the root, that `source word` in `text` of `file` may mean, most likely first."""
    path = _expanded(word.strip(), text)
    if path is None:
        return
    directory = posixpath.dirname(file)
    if path.startswith("\0"):
        yield from _inside(posixpath.join(directory, path[1:].lstrip("/") or "."))
    elif path.startswith("/"):
        # A mounted checkout: `/workspace/benchmarks/lib.sh` ends with a path of the repository.
        parts = path.strip("/").split("/")
        for index in range(1, len(parts)):
            yield "/".join(parts[index:])
    elif "$" not in path:
        yield from _inside(path)
        yield from _inside(posixpath.join(directory, path))


def _inside(path: str) -> Iterator[str]:
    normal = posixpath.normpath(path)
    if not normal.startswith(("../", "/")) and normal != "..":
        yield normal


def _expanded(word: str, text: str) -> str | None:
    """`word` with the script's own directory as NUL; None if it cannot be known."""
    plain = word.replace('"', "").replace("'", "")
    own = _OWN_DIRECTORY.match(plain)
    if own:
        return "\0" + plain[own.end() :]
    named = _VARIABLE.match(plain)
    if named is None:
        return plain
    rest = plain[named.end() :]
    values = re.findall(_ASSIGNMENT.format(re.escape(named[1])), text[:200_000])
    if not values:
        # A root of the checkout that the environment names, such as $GITHUB_WORKSPACE.
        return rest.lstrip("/") if rest.startswith("/") else None
    value = values[-1].replace('"', "").replace("'", "")
    own = _OWN_DIRECTORY.match(value)
    if own:
        above = re.search(r"/(\.\.(?:/\.\.)*)", own[0])
        up = "/" + above[1] if above else ""
        tail = re.split(r"[\s;&]", value[own.end() :])[0]
        return "\0" + up + tail + rest
    return None if "$" in value else value + rest
