# SPDX-License-Identifier: Apache-2.0
"""Pure. A family of JIT caches: what is known of one library's cache directory, as data."""

import enum
from fnmatch import fnmatchcase

from msgspec import Struct

from ci_doctor.store.merge import Merge


class Rewrite(enum.StrEnum):
    """How the files of a cache are changed for another directory (`relocate.py`)."""

    TRITON_GROUPS = "triton-groups"


class CacheLineKind(enum.StrEnum):
    """What a line in a log says about a cache.

    `directory`: the library uses this directory. `loaded`: it loaded something compiled earlier.
    `compiled`: it compiled something, or begins to. `total`: the seconds that all of it took, which
    holds for loads too. `disabled`: it uses no cache.
    """

    DIRECTORY = "directory"
    LOADED = "loaded"
    COMPILED = "compiled"
    TOTAL = "total"
    DISABLED = "disabled"


class CacheLine(Struct, frozen=True, kw_only=True):
    """A line that a library logs. `literal` stands in it; `pattern` is a regex for re.search.

    Its groups, if it has them: `directory` (a path), `seconds`, `name` (a kernel or graph).
    """

    kind: CacheLineKind
    literal: str
    pattern: str


class Family(Struct, frozen=True, kw_only=True):
    """One family.

    variable: names its directory (`environment/cache_table.py`); None for a family whose
    directory is `default` alone. subdirectory: below that directory.
    distributions: whose version and files are facts of the hard tier.
    environment: variables that change what is compiled, facts of the hard tier if they are set.
    files: whose content is a fact of the hard tier, or of the soft one with `fallback`.
    needs_gpu: without a GPU, the family is another one's, and its identity is unknown.
    hard, soft: names of facts (`fact_names.py`). path: facts that are baked into the cache, which is
    inert if one of them differs. rewrite: what makes it usable in another directory; without it and
    without `cache.root` in `path`, its directory means nothing.
    merge, group: how it joins a directory that exists; a group of files that belong together is
    what has its first `group` components of the path in common (0: each file for itself, or all of the
    cache if whole directories are merged).
    markers: files without which the library ignores the others, to be installed last.
    exclude: what is never saved. compiled: files of which a compile makes one or more.
    lines: what the library logs about it. source: where all this was read.
    """

    name: str
    library: str
    source: str
    variable: str | None = None
    default: str | None = None
    subdirectory: str = ""
    distributions: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    fallback: bool = False
    needs_gpu: bool = False
    hard: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    rewrite: Rewrite | None = None
    merge: Merge = Merge.UNION
    group: int = 0
    markers: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ("*",)
    lines: tuple[CacheLine, ...] = ()

    def excludes(self, path: str) -> bool:
        """Whether the file at `path`, relative with "/", is never saved."""
        return _matches(path, self.exclude)

    def is_marker(self, path: str) -> bool:
        """Whether the file at `path` is to be installed after the others."""
        return _matches(path, self.markers)

    def is_compiled(self, path: str) -> bool:
        """Whether the file at `path` shows that something was compiled."""
        return _matches(path, self.compiled) and not self.excludes(path)

    def group_of(self, path: str) -> str:
        """The name of the group of files to which `path` belongs."""
        if self.merge is Merge.WHOLE_DIRECTORIES and not self.group:
            return ""
        parts = path.split("/")
        return "/".join(parts[: self.group]) if 0 < self.group < len(parts) else path


def _matches(path: str, globs: tuple[str, ...]) -> bool:
    """`*` matches across "/"; a glob without "/" is compared with the last component too."""
    name = path.rpartition("/")[2]
    return any(
        fnmatchcase(path, glob) or ("/" not in glob and fnmatchcase(name, glob)) for glob in globs
    )
