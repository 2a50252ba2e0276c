# SPDX-License-Identifier: Apache-2.0
"""Reads a project's files: which tool computes its version, with which options, or which code of its own."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ci_doctor.environment.project import (
    GENERIC,
    HATCH_VCS,
    SCM_TABLES,
    SETUPTOOLS_SCM,
    PackagingFiles,
    Project,
    ScmOptions,
    VersionSource,
    constants,
    imported_modules,
    packages,
    read_packaging_files,
    scm_table,
    table,
)
from ci_doctor.errors import UsageError

GIT_DESCRIBE: Final = "git describe"

# Modules whose purpose is to read versions from a repository, or to read repositories.
TOOL_MODULES: Final = {
    "setuptools_scm": "setuptools-scm",
    "vcs_versioning": "setuptools-scm",
    "hatch_vcs": "hatch-vcs",
    "versioneer": "versioneer",
    "versioningit": "versioningit",
    "dunamai": "dunamai",
    "setuptools_git_versioning": "setuptools-git-versioning",
    "poetry_dynamic_versioning": "poetry-dynamic-versioning",
    "uv_dynamic_versioning": "uv-dynamic-versioning",
    "pbr": "pbr",
    "miniver": "miniver",
    "git": "GitPython",
    "pygit2": "pygit2",
    "dulwich": "dulwich",
}
# Commands that answer with tags.
_READS_TAGS: Final = re.compile(r"\b(describe|for-each-ref|show-ref|ls-remote|tag)\b")
_COMMAND: Final = re.compile(r"\bgit\b[^;&|\n]*\b(describe|for-each-ref|show-ref|ls-remote|tag)\b")


# Its arguments, up to a line that ends with a parenthesis.
_MESON_PROJECT = re.compile(r"\bproject\s*\((.*?)\)\s*$", re.DOTALL | re.MULTILINE)
_MESON_TOOL = re.compile(r"setuptools_scm|versioneer|dunamai|versioningit")
_SCRIPT = re.compile(r"'([^']+\.(?:py|sh))'")


class VersionCode(Struct, frozen=True, kw_only=True):
    """Code that computes a version from git: `tool` is what it reads tags with."""

    file: Path
    tool: str


def version_code(files: PackagingFiles) -> VersionCode | None:
    """The first file that computes the version and reads tags; None if there is none."""
    return _meson_code(files) or _first_reader(_candidates(files))


def code_of_attribute(files: PackagingFiles, attribute: str) -> VersionCode | None:
    """The code behind `attr = "package.module.name"`, unless a literal stands there.

    setuptools takes a literal from the syntax tree and imports the module for anything else
    (setuptools.config.expand.read_attr).
    """
    module, _, name = attribute.rpartition(".")
    path = _module_file(files.directory, module)
    if path is None:
        return None
    text = _read(path)
    if literal_name(text, name):
        return None
    # The siblings that it takes names from: `from ._version import version`.
    siblings = re.findall(r"^\s*from \.(\w+) import", text, re.MULTILINE)
    files_beside = (path.parent / f"{sibling}.py" for sibling in siblings)
    return _first_reader((path, *filter(Path.is_file, files_beside)))


def _first_reader(paths: Iterable[Path]) -> VersionCode | None:
    for path in paths:
        text = _read(path)
        tool = git_reader(text) if path.suffix == ".py" else git_command(text)
        if tool is not None:
            return VersionCode(file=path, tool=tool)
    return None


def _candidates(files: PackagingFiles) -> Iterator[Path]:
    for directory, module in _modules(files):
        file = _module_file(directory, module)
        if file is not None:
            yield file
    for name in _scripts(files):
        yield files.directory / name


def _modules(files: PackagingFiles) -> Iterator[tuple[Path, str]]:
    """A backend in the project's tree (PEP 517, `backend-path`), and the module of flit."""
    paths = table(files.pyproject, "build-system").get("backend-path")
    for path in paths if isinstance(paths, list) else ():
        yield files.directory / str(path), files.backend.partition(":")[0]
    name = table(table(files.tools, "flit"), "module").get("name") or files.distribution_name
    if files.backend.startswith("flit_core") and isinstance(name, str):
        yield files.directory, re.sub(r"[-.]+", "_", name)


def _scripts(files: PackagingFiles) -> Iterator[str]:
    """Those of hatchling, and that of scikit-build-core's provider."""
    hatch = table(files.tools, "hatch")
    source = table(files.hatch, "version") or table(hatch, "version")
    if source.get("source") == "code" and isinstance(source.get("path"), str):
        yield source["path"]
    hooks = table(table(files.hatch, "metadata") or table(hatch, "metadata"), "hooks")
    if "custom" in hooks:
        yield str(table(hooks, "custom").get("path", "hatch_build.py"))
    version = table(table(table(files.tools, "scikit-build"), "metadata"), "version")
    if isinstance(version.get("provider-path"), str):
        provider = str(version.get("provider", "")).replace(".", "/")
        yield f"{version['provider-path']}/{provider}.py"


def _meson_code(files: PackagingFiles) -> VersionCode | None:
    """A command in `project()` of meson.build that computes the version, or its script."""
    path = files.directory / "meson.build"
    if not files.backend.startswith("mesonpy"):
        return None
    match = _MESON_PROJECT.search(_read(path))
    if match is None or "run_command" not in match[1]:
        return None
    named = _MESON_TOOL.search(match[1])
    tool = named[0].replace("_", "-") if named else git_command(match[1])
    if tool is not None:
        return VersionCode(file=path, tool=tool)
    return _first_reader(files.directory / script for script in _SCRIPT.findall(match[1]))


def _module_file(directory: Path, module: str) -> Path | None:
    relative = module.replace(".", "/")
    for base in (directory, directory / "src", directory / "lib"):
        for name in (f"{relative}.py", f"{relative}/__init__.py"):
            if relative and (base / name).is_file():
                return base / name
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def attribute_of(value: Any) -> str | None:
    """The `attr` of setuptools' version, as `{attr = "…"}` or as setup.cfg's `attr: …`."""
    if isinstance(value, dict):
        value = value.get("attr")
        return value if isinstance(value, str) else None
    if isinstance(value, str) and value.startswith("attr:"):
        return value.removeprefix("attr:").strip()
    return None


def git_reader(source: str) -> str | None:
    """The tool by which the Python text `source` reads tags (GIT_DESCRIBE for git itself).

    None if it does not. A text that is not Python is searched for the words of a git command.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return git_command(source)
    for module in imported_modules(tree):
        if module in TOOL_MODULES:
            return TOOL_MODULES[module]
    # The docstrings of a program may describe anything.
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    words = [
        node.value for node in strings if isinstance(node.value, str) and id(node) not in prose
    ]
    # ["git", "describe"], or run_git("describe") with the program's name elsewhere.
    is_split = "git" in words and any(_READS_TAGS.fullmatch(word) for word in words)
    return GIT_DESCRIBE if is_split or any(map(_COMMAND.search, words)) else None


def git_command(text: str) -> str | None:
    """GIT_DESCRIBE if `text`, of any language, holds a git command that answers with tags."""
    # 'git', 'describe' in a list is one command too.
    return GIT_DESCRIBE if _COMMAND.search(re.sub(r"[\"',\[\]()]", " ", text)) else None


def literal_name(source: str, name: str) -> bool:
    """Whether the Python text `source` binds `name` at its top level to one literal."""
    try:
        value = constants(ast.parse(source)).get(name)
        ast.literal_eval(value or "")
    except (SyntaxError, ValueError):
        return False
    return value is not None


_PACKAGING_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


class OtherTool(Struct, frozen=True, kw_only=True):
    """A tool whose version a build alone can tell.

    `table` is its place under `[tool]`, `package` its canonical name in `build-system.requires`,
    `module` the import in a setup.py; `advice` says what would help. `variable` is one from which
    the tool takes a version, None if there is none.
    """

    tool: str
    table: tuple[str, ...] = ()
    package: str | None = None
    module: str | None = None
    advice: str
    variable: str | None = None


def _bypass(variable: str, more: str = "") -> str:
    return f"export {variable}=VERSION{more}"


_PATTERN: Final = ", or give it a `pattern` that matches release tags only"
PDM: Final = OtherTool(
    tool="pdm-backend",
    advice=_bypass(
        "PDM_BUILD_SCM_VERSION", ", or set `tag_filter` to a pattern that matches release tags only"
    ),
    variable="PDM_BUILD_SCM_VERSION",
)
FLIT_SCM: Final = OtherTool(
    tool="flit_scm", advice=_bypass(GENERIC), variable=GENERIC, table=("setuptools_scm",)
)
# Variables and options as documented by each tool; checked with versioningit 3.3,
# setuptools-git-versioning 3.2, dunamai 1.26, versioneer 0.29, pdm-backend 2.5, flit_scm 1.7.
OTHER_TOOLS: Final = (
    OtherTool(
        tool="poetry-dynamic-versioning",
        table=("poetry-dynamic-versioning",),
        package="poetry-dynamic-versioning",
        advice=_bypass("POETRY_DYNAMIC_VERSIONING_BYPASS", _PATTERN),
        variable="POETRY_DYNAMIC_VERSIONING_BYPASS",
    ),
    OtherTool(
        tool="uv-dynamic-versioning",
        table=("uv-dynamic-versioning",),
        package="uv-dynamic-versioning",
        advice=_bypass("UV_DYNAMIC_VERSIONING_BYPASS", _PATTERN),
        variable="UV_DYNAMIC_VERSIONING_BYPASS",
    ),
    OtherTool(
        tool="versioningit",
        table=("versioningit",),
        package="versioningit",
        advice=(
            "it reads no variable: set `default-version`, "
            "and `match = ['v[0-9]*']` under [tool.versioningit.vcs]"
        ),
    ),
    OtherTool(
        tool="setuptools-git-versioning",
        table=("setuptools-git-versioning",),
        package="setuptools-git-versioning",
        advice="it reads no variable: set `tag_filter` to a regex that matches release tags only",
    ),
    OtherTool(
        tool="versioneer",
        table=("versioneer",),
        package="versioneer",
        module="versioneer",
        advice="it reads no variable: set `tag_prefix` so that only release tags begin with it",
    ),
    OtherTool(
        tool="pbr",
        package="pbr",
        module="pbr",
        advice=_bypass("PBR_VERSION"),
        variable="PBR_VERSION",
    ),
    OtherTool(
        tool="dunamai",
        package="dunamai",
        module="dunamai",
        advice="it reads no variable: give it a `pattern` that matches release tags only",
    ),
)
_SOURCE_ADVICE: Final = "pin the version in the way that this source documents"
_CODE_ADVICE: Final = "let that code consider release tags only: git describe --match 'v[0-9]*'"
_SCRIPT_ADVICE: Final = (
    "make setup.py take its version from setuptools-scm, or from a variable that this job sets"
)
# A build requirement whose name says that it reads a repository.
_SOUNDS_LIKE_GIT: Final = re.compile(r"(^|-)(scm|git|vcs|versioning)(-|$)|git-?version|dunamai")
# These do nothing to a version unless a table asks for it, and then they are recognised by it.
_KNOWN_REQUIREMENTS: Final = {"setuptools-scm", "hatch-vcs", "vcs-versioning", "setuptools-git"}


def has_project(directory: Path) -> bool:
    """Whether there is a Python project in `directory`: one of the files that packaging reads."""
    return any((directory / name).is_file() for name in _PACKAGING_FILES)


def read_project(directory: Path) -> Project:
    """Return the project in `directory` with the tool that computes its version.

    Raises UsageError if the directory or its packaging files are missing or cannot be parsed (with
    file and line).
    """
    directory = directory.absolute()
    if not directory.is_dir():
        raise UsageError(
            f"no such project directory: {directory}", hint="name a directory with --project"
        )
    if not has_project(directory):
        raise UsageError(
            f"{directory} has no pyproject.toml, setup.py or setup.cfg",
            hint="name the directory of a Python project with --project",
        )
    # A build's working directory shows no links, and `root = ".."` goes up from there.
    return _detect(read_packaging_files(directory.resolve()))


def _detect(files: PackagingFiles) -> Project:
    """Which tool, by the `build-backend` (PEP 517) and then by that backend's own rules."""
    literal = files.metadata.get("version") or table(files.tools, "poetry").get("version")
    required = packages(files.requires)
    # poetry-dynamic-versioning replaces the literal during the build.
    if isinstance(literal, str) and "poetry-dynamic-versioning" not in required:
        return _fixed(files, "pyproject.toml", version=literal)
    in_tree = "backend-path" in table(files.pyproject, "build-system")
    if in_tree:
        computed = _computed_by_code(files)
        if computed is not None:
            return computed
    # `hatchling.build` belongs to hatchling, `setuptools.build_meta:__legacy__` to setuptools.
    (backend,) = packages([files.backend.replace(".", "-")]) or ("",)
    for package, detect in BACKENDS.items():
        # A backend in the project's own tree (`backend-path`) wraps one that it requires.
        if (
            (in_tree and package in required)
            or backend == package
            or backend.startswith(f"{package}-")
        ):
            return detect(files)
    return _other(files, files.backend)


def _setuptools(files: PackagingFiles) -> Project:
    """What computes the version, by what has the last word in a build.

    That is setuptools' `dynamic` table, then setup.py; setuptools-scm's hook leaves a version alone
    that is set already.
    """
    dynamic = table(table(files.tools, "setuptools"), "dynamic")
    if files.is_version_dynamic and "version" in dynamic:
        attribute = attribute_of(dynamic["version"])
        computed = _computed_by_code(files, attribute) if attribute else None
        return computed or _fixed(files, "[tool.setuptools.dynamic]")
    if calls := files.script.get_version_calls:
        # One variable must serve every call: one without a distribution's name decides for all.
        unnamed = [call for call in calls if "dist_name" not in call.values]
        return _with_setuptools_scm(files, (*unnamed, calls[0])[0], reads_pyproject=False)
    if files.script.use_scm_version is not None:
        return _with_setuptools_scm(files, files.script.use_scm_version)
    return _stated(files)


def _stated(files: PackagingFiles) -> Project:
    """A literal of setup.cfg or setup.py, then setuptools-scm's hook, then code of setuptools'."""
    cfg_version = files.cfg_metadata.get("version")
    if cfg_version is not None and not cfg_version.startswith(("attr:", "file:")):
        return _fixed(files, "setup.cfg", version=cfg_version)
    if files.script.version is not None:
        return _fixed(files, "setup.py", version=files.script.version)
    if _requests_setuptools_scm(files):
        return _with_setuptools_scm(files)
    attribute = attribute_of(cfg_version)
    computed = _computed_by_code(files, attribute) if attribute else None
    return computed or _other(files, "setuptools")


def _requests_setuptools_scm(files: PackagingFiles) -> bool:
    """Whether setuptools-scm's hook would set the version (its `should_infer`).

    A table requests it, even an empty one, and so does the extra `setuptools-scm[simple]` beside a
    dynamic version. A plain build requirement does not (setuptools-scm 10.3).
    """
    if any(name in files.tools for name in SCM_TABLES):
        return True
    extra = re.compile(r"setuptools[-_.]+scm\s*\[[^\]]*\bsimple\b[^\]]*\]", re.IGNORECASE)
    return files.is_version_dynamic and any(extra.match(text) for text in files.requires)


def _with_setuptools_scm(
    files: PackagingFiles, options: ScmOptions | None = None, *, reads_pyproject: bool = True
) -> Project:
    """A project whose version setuptools-scm computes with `options` from setup.py."""
    options = options or ScmOptions(values={})
    section = scm_table(files.pyproject) if reads_pyproject else options.values
    dist_name = section.get("dist_name")
    name = dist_name if isinstance(dist_name, str) else files.distribution_name
    return Project(
        directory=files.directory,
        name=name,
        tool=(
            SETUPTOOLS_SCM.name if reads_pyproject else "setuptools_scm.get_version() in setup.py"
        ),
        source=SETUPTOOLS_SCM,
        pyproject=files.pyproject,
        options=options.values,
        unreadable=options.unreadable,
        reads_pyproject=reads_pyproject,
        reads_generic=name is None or (not reads_pyproject and dist_name is None),
    )


def _hatchling(files: PackagingFiles) -> Project:
    """By `[tool.hatch.version]`, or `[version]` of hatch.toml, which wins.

    See https://hatch.pypa.io/latest/intro/#configuration.
    """
    settings = table(files.hatch, "version") or table(table(files.tools, "hatch"), "version")
    source = settings.get("source", "regex")
    # These take the version from a file or a variable.
    if source in {"regex", "code", "env"}:
        computed = None if source == "regex" and settings else _computed_by_code(files)
        return computed or _fixed(files, "hatchling")
    if source != "vcs":
        return _named_tool(files) or _unsupported(files, f"hatch source {source}", _SOURCE_ADVICE)
    # As construct_setuptools_scm_config of hatch_vcs.version_source does.
    options = dict(table(settings, "raw-options"))
    if settings.get("tag-pattern"):
        options["tag_regex"] = settings["tag-pattern"]
    if settings.get("fallback-version"):
        options["fallback_version"] = settings["fallback-version"]
    dist_name = options.get("dist_name")
    return Project(
        directory=files.directory,
        name=dist_name if isinstance(dist_name, str) else files.distribution_name,
        tool=HATCH_VCS.name,
        source=HATCH_VCS,
        options=options,
        reads_generic=dist_name is None,
    )


def _pdm(files: PackagingFiles) -> Project:
    """By the `source` of `[tool.pdm.version]`."""
    source = table(table(files.tools, "pdm"), "version").get("source", "file")
    if source == "file":
        return _fixed(files, PDM.tool)
    if source == "scm":
        return _unsupported(files, PDM.tool, PDM.advice, PDM.variable)
    return _named_tool(files) or _unsupported(files, f"pdm-backend source {source}", _SOURCE_ADVICE)


def _scikit_build(files: PackagingFiles) -> Project:
    """Its setuptools_scm provider reads `[tool.setuptools_scm]` and the name."""
    metadata = table(table(files.tools, "scikit-build"), "metadata")
    provider = table(metadata, "version").get("provider")
    if provider == "scikit_build_core.metadata.setuptools_scm":
        return _with_setuptools_scm(files)
    return _other(files, "scikit-build-core")


def _flit_scm(files: PackagingFiles) -> Project:
    """Without setuptools-scm's table it is flit_core alone, which reads the module."""
    if _holds(files.tools, FLIT_SCM.table):
        return _unsupported(files, FLIT_SCM.tool, FLIT_SCM.advice, FLIT_SCM.variable)
    return _other(files, FLIT_SCM.tool)


# By the package of the build backend (PEP 517), in the order in which they are tried.
BACKENDS: Final[Mapping[str, Callable[[PackagingFiles], Project]]] = {
    "setuptools": _setuptools,
    "hatchling": _hatchling,
    "pdm-backend": _pdm,
    "scikit-build-core": _scikit_build,
    "flit-scm": _flit_scm,
}


def _fixed(files: PackagingFiles, tool: str, *, version: str | None = None) -> Project:
    """A project whose version stands in a file; `version` is the literal, if there is one."""
    return Project(
        directory=files.directory,
        name=files.distribution_name,
        tool=tool,
        version=version,
        pyproject=files.pyproject,
    )


def _other(files: PackagingFiles, tool: str) -> Project:
    """A tool that is known by name, else what setup.py shows, else a version in some file."""
    named = _named_tool(files)
    if named is not None:
        return named
    script = files.script
    # With `setup(**keywords)` the version may be among the keywords, unless it stands elsewhere.
    is_stated = "version" in files.cfg_metadata or (
        bool(files.metadata) and not files.is_version_dynamic
    )
    if script.computes_version or (script.has_unreadable_keywords and not is_stated):
        return _unsupported(files, "code in setup.py", _SCRIPT_ADVICE)
    return _computed_by_code(files) or _fixed(files, tool)


def _computed_by_code(files: PackagingFiles, attribute: str | None = None) -> Project | None:
    """A project whose build runs code that reads tags; `attribute` names code of setuptools'.

    None if no such code is found.
    """
    code = version_code(files)
    if code is None and attribute is not None:
        code = code_of_attribute(files, attribute)
    if code is not None:
        tool = f"{code.tool} in {code.file.relative_to(files.directory)}"
        # meson prints what setuptools-scm says; other code may change it, and would change a pin too.
        if code.tool == SETUPTOOLS_SCM.name and code.file.name == "meson.build":
            return _unsupported(files, tool, _bypass(GENERIC), GENERIC)
        return _unsupported(files, tool, _CODE_ADVICE)
    if files.is_version_dynamic:
        for package in sorted(packages(files.requires) - _KNOWN_REQUIREMENTS):
            if _SOUNDS_LIKE_GIT.search(package):
                return _unsupported(files, package, _SOURCE_ADVICE)
    return None


def _named_tool(files: PackagingFiles) -> Project | None:
    """The first other tool that a project shows: by table, build requirement or import."""
    required = packages(files.requires)
    for each in OTHER_TOOLS:
        if (
            each.package in required
            or each.module in files.script.modules
            or _holds(files.tools, each.table)
        ):
            return _unsupported(files, each.tool, each.advice, each.variable)
    return None


def _unsupported(
    files: PackagingFiles, tool: str, advice: str, variable: str | None = None
) -> Project:
    """A project that a build alone can tell about; its `variable` pins what the build says."""
    source = None if variable is None else VersionSource(name=tool, variable=variable)
    return Project(
        directory=files.directory,
        name=files.distribution_name,
        tool=tool,
        source=source,
        advice=advice,
        pyproject=files.pyproject,
        reads_generic=source is not None,
    )


def _holds(tables: Mapping[str, Any], path: Sequence[str]) -> bool:
    inner: Any = tables
    for key in path:
        inner = inner.get(key) if isinstance(inner, Mapping) else None
    return bool(path) and inner is not None
