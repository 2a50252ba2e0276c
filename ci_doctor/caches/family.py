# SPDX-License-Identifier: Apache-2.0
"""Pure. A family of JIT caches: what is known of one library's cache directory, as data."""

import enum
import json
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.store.plan import Merge

# --- the names of facts by which a cache's validity is decided ---

MACHINE = (
    "os.architecture",
    "glibc",
    "cpu.isa",
    "cpu.model",
    "cpu.threads",
    "compiler",
    "compiler.native",
    "nvcc",
    "cuda.home",
)
GPUS = ("gpu.names", "gpu.capability", "driver", "driver.major")
PYTHON = (
    "python.abi",
    "python.base",
    "python.environment",
    "python.packages",
    "torch.git",
    "torch.cuda",
)
# The job's own variables at Buildkite.
JOB = {
    "job.pipeline": "BUILDKITE_PIPELINE_SLUG",
    "job.step": "BUILDKITE_STEP_KEY",
    "job.branch": "BUILDKITE_BRANCH",
    "job.directory": "BUILDKITE_BUILD_CHECKOUT_PATH",
}
OF_A_CACHE = ("cache.root", "package.times")
_NAMES = frozenset((*MACHINE, *GPUS, *PYTHON, *JOB, *OF_A_CACHE))


def is_fact_name(name: str) -> bool:
    """Whether a fact has this name; `package.NAME` is the build of a distribution."""
    return name in _NAMES or (name.startswith("package.") and len(name) > len("package."))


# --- a family of JIT caches: what is known of one library's cache directory, as data ---


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


class OwnFamily(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[cache.own.NAME]`: the fields of a family (`family.py`).

    Nobody has said what decides validity of an unknown cache, so by default everything does: the
    machine, its compiler and its GPUs, the Python environment with its packages, and the directory.
    files: whose content decides, relative to the working directory (a lock file). fallback: if no
    saved cache has these contents, the newest that fits otherwise is restored.
    """

    variable: str | None = None
    default: str | None = None
    subdirectory: str = ""
    distributions: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    fallback: bool = False
    hard: tuple[str, ...] = (
        "os.architecture",
        "glibc",
        "python.abi",
        "python.packages",
        "cpu.isa",
        "compiler",
        "compiler.native",
        "nvcc",
        "gpu.names",
        "gpu.capability",
        "driver",
    )
    path: tuple[str, ...] = ("cache.root", "python.environment", "python.base")
    soft: tuple[str, ...] = ("job.pipeline", "job.step", "job.branch")
    merge: Merge = Merge.UNION
    group: int = 0
    markers: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ("*.lock", "*.tmp", "tmp/*", "*/tmp/*")
    compiled: tuple[str, ...] = ("*",)
    lines: tuple[CacheLine, ...] = ()


class Family(OwnFamily, frozen=True, kw_only=True):
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
    needs_gpu: bool = False
    hard: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    rewrite: Rewrite | None = None
    exclude: tuple[str, ...] = ()

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


# --- families of a repository's own: `NAME=DIR`, and `[cache.own.NAME]` ---

# It is a part of the names of objects in a store.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def own_family(name: str, settings: OwnFamily | None = None) -> Family:
    """A family of one's own. Raises UsageError for what no family can be."""
    settings = settings or OwnFamily()
    key = f"[cache.own.{name}]"
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a cache family",
            hint="use lower-case letters, digits and hyphens",
        )
    if settings.fallback and not settings.files:
        raise UsageError(f"{key}: fallback is about `files`, and none is named")
    for fact in (*settings.hard, *settings.path, *settings.soft):
        if not is_fact_name(fact):
            raise UsageError(f"{key} names a fact that nobody reads: {fact}")
    for line in settings.lines:
        try:
            re.compile(line.pattern)
        except re.error as error:
            raise UsageError(f"{key} has a pattern that is no regex: {error}") from error
    if ".." in settings.subdirectory.split("/") or settings.subdirectory.startswith("/"):
        raise UsageError(f"{key}: subdirectory leads out of the directory")
    fields = {field: getattr(settings, field) for field in OwnFamily.__struct_fields__}
    return Family(name=name, library=name, source="this repository's configuration", **fields)


# --- a cache moved to another directory: the files in which its path stands are rewritten ---
# Triton's FileCacheManager (3.9, runtime/cache.py) writes a `__grp__NAME.json` per kernel, with the
# absolute path of each file of the kernel. The files always lie beside it, so the new paths follow
# from where it lies: in a cache of Triton's own, and in those that TorchInductor and vLLM nest in
# theirs.

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
