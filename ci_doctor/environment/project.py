# SPDX-License-Identifier: Apache-2.0
"""Reads packaging files: one distribution, what computes its version, and the variables that pin it. A setup.py is read as its syntax tree and never runs."""

import ast
import configparser
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct

from ci_doctor.environment.tags import Described
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import NextStep, Rule

# The version of a setup.py, from its syntax tree: the script never runs.

# These decide where a version is written, not what it is.
_OUTPUT_OPTIONS: Final = {
    "write_to",
    "write_to_template",
    "version_file",
    "version_file_template",
    "write_to_source",
}

# Stands for option names that only running the script could show.
_UNREADABLE: Final = "*"

# Spellings of "the directory of this file"; `Path` covers pathlib.Path too (the prefix is dropped
# before comparing).
_HERE: Final = {
    "os.path.dirname(__file__)",
    "os.path.dirname(os.path.abspath(__file__))",
    "os.path.dirname(os.path.realpath(__file__))",
    "os.path.abspath(os.path.dirname(__file__))",
    "os.path.realpath(os.path.dirname(__file__))",
    "Path(__file__).parent",
    "Path(__file__).resolve().parent",
    "Path(__file__).absolute().parent",
    "Path(__file__).parent.resolve()",
    "Path(__file__).parent.absolute()",
}

_Pairs = list[tuple[str | None, ast.expr]]


class ScmOptions(Struct, frozen=True, kw_only=True):
    """Options given to setuptools-scm.

    `values` are Python values, with `__file__` as an absolute path. `unreadable` names the options
    that only running the script could show (`*` if not even the names are known).
    """

    values: dict[str, Any]
    unreadable: tuple[str, ...] = ()


class SetupScript(Struct, frozen=True, kw_only=True):
    """The version-related parts of one setup.py.

    `version` is a literal `setup(version=...)`; `computes_version`: an expression stands there.
    `has_unreadable_keywords`: setup() is called with `**keywords` that only running it could show.
    `setup_requires` are build requirements, as written.
    """

    name: str | None = None
    version: str | None = None
    computes_version: bool = False
    has_unreadable_keywords: bool = False
    modules: frozenset[str] = frozenset()
    setup_requires: tuple[str, ...] = ()
    get_version_calls: tuple[ScmOptions, ...] = ()
    use_scm_version: ScmOptions | None = None


def read_setup_script(source: str, path: str) -> SetupScript:
    """Read `source`, the text of the setup.py at the absolute `path`.

    Raises SyntaxError (ValueError for a null byte). It recognises both documented uses: the keyword
    `setup(use_scm_version=...)` and a call of `setuptools_scm.get_version(...)` under any imported
    name (https://setuptools-scm.readthedocs.io/en/latest/usage/#setuppy-usage-deprecated).
    """
    tree = ast.parse(source, path)
    evaluator = _Evaluator(constants(tree), path)
    keywords = evaluator.setup_keywords(tree)
    version = keywords.get("version")
    literal = evaluator.text(version)
    scm = keywords.get("use_scm_version")
    calls = calls_of(tree, {"setuptools_scm"}, "get_version")
    return SetupScript(
        name=evaluator.text(keywords.get("name")),
        version=literal,
        computes_version=version is not None and literal is None,
        has_unreadable_keywords=_UNREADABLE in keywords,
        modules=frozenset(imported_modules(tree)),
        setup_requires=evaluator.texts(keywords.get("setup_requires")),
        get_version_calls=tuple(evaluator.call_options(call) for call in calls),
        use_scm_version=None if scm is None else evaluator.keyword_options(scm),
    )


class _Evaluator:
    """Evaluates the expressions whose value is certain without running the script."""

    def __init__(self, names: Mapping[str, ast.expr], path: str) -> None:
        self._names = names
        self._path = path

    def value(self, node: ast.expr) -> Any:
        """The value of `node`; raises ValueError if only running the script could show it."""
        node = self._resolve(node)
        if isinstance(node, ast.Name) and node.id == "__file__":
            return self._path
        if ast.unparse(node).replace("pathlib.Path", "Path") in _HERE:
            return self._path.rpartition("/")[0]
        return ast.literal_eval(node)

    def text(self, node: ast.expr | None) -> str | None:
        """The value of `node` if it is a certain string."""
        value = self._certain(node)
        return value if isinstance(value, str) else None

    def texts(self, node: ast.expr | None) -> tuple[str, ...]:
        """The strings of `node`, one or a list of them; empty if they are not certain."""
        value = self._certain(node)
        values = value if isinstance(value, (list, tuple)) else [value]
        return tuple(text for text in values if isinstance(text, str))

    def _certain(self, node: ast.expr | None) -> Any:
        """The value of `node`; None if there is none that is certain."""
        try:
            return None if node is None else self.value(node)
        except ValueError:
            return None

    def keyword_options(self, node: ast.expr) -> ScmOptions | None:
        """Options of `use_scm_version=`; None for a false value."""
        node = self._resolve(node)
        if isinstance(node, ast.Constant):
            return ScmOptions(values={}) if node.value else None
        pairs = self._pairs(node)
        if pairs is None:  # a call, a name that is bound twice
            return ScmOptions(values={}, unreadable=(_UNREADABLE,))
        return self._options(pairs)

    def setup_keywords(self, tree: ast.Module) -> dict[str, ast.expr]:
        """The keywords of the first `setup(...)` call, also those of a dict spread into it."""
        modules = {"setuptools", "distutils.core"}
        calls = calls_of(tree, modules, "setup", "setup", "setuptools.setup")
        return {
            name or _UNREADABLE: value
            for keyword in (calls[0].keywords if calls else ())
            for name, value in self._spread(keyword)
        }

    def call_options(self, call: ast.Call) -> ScmOptions:
        """Options of a `get_version(...)` call; `root` is its first positional parameter."""
        names = ["root", *[None] * len(call.args)]
        positional = list(zip(names, call.args, strict=False))
        return self._options([*positional, *((each.arg, each.value) for each in call.keywords)])

    def _spread(self, keyword: ast.keyword) -> _Pairs:
        """`name=value` as it is; `**mapping` as its items, if they are certain."""
        if keyword.arg is None:
            pairs = self._pairs(keyword.value)
            if pairs is not None:
                return pairs
        return [(keyword.arg, keyword.value)]

    def _pairs(self, node: ast.expr) -> _Pairs | None:
        """The items of a dict or a `dict(...)`; None for anything else.

        An item's name is None if only running the script could show it.
        """
        node = self._resolve(node)
        if isinstance(node, ast.Dict):
            return list(zip([self.text(key) for key in node.keys], node.values, strict=True))
        if not isinstance(node, ast.Call) or node.args:
            return None
        if isinstance(node.func, ast.Name) and node.func.id == "dict":
            return [(keyword.arg, keyword.value) for keyword in node.keywords]
        return None

    def _options(self, pairs: Iterable[tuple[str | None, ast.expr]]) -> ScmOptions:
        values: dict[str, Any] = {}
        unreadable: list[str] = []
        for name, node in pairs:
            if name in _OUTPUT_OPTIONS:
                continue
            if name is None:
                unreadable.append(_UNREADABLE)
                continue
            try:
                values[name] = self.value(node)
            except ValueError:
                unreadable.append(name)
        return ScmOptions(values=values, unreadable=tuple(unreadable))

    def _resolve(self, node: ast.expr) -> ast.expr:
        """Follow a name to the one literal that the module binds it to."""
        followed: set[str] = set()
        # `a = b` and `b = a` would go on for ever.
        while isinstance(node, ast.Name) and node.id in self._names and node.id not in followed:
            followed.add(node.id)
            node = self._names[node.id]
        return node


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Module-level names that are bound exactly once: their value is certain."""
    bindings: dict[str, list[ast.expr]] = {}
    for statement in tree.body:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        value = getattr(statement, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                bindings.setdefault(target.id, []).append(value)
    return {name: values[0] for name, values in bindings.items() if len(values) == 1}


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """The top-level names of the modules that the script imports anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def calls_of(
    tree: ast.Module, modules: Collection[str], function: str, *spellings: str
) -> list[ast.Call]:
    """The calls of `function` of one of `modules`, by an imported name or one of `spellings`."""
    names = {*spellings, *_imported_names(tree, modules, function)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) in names]


def _imported_names(tree: ast.Module, modules: Collection[str], function: str) -> Iterator[str]:
    """How the script may spell `function`: `module.function`, or a name that it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = modules
            ending = f".{function}"
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            wanted = {function}
            ending = ""
        else:
            continue
        for alias in node.names:
            if alias.name in wanted:
                yield f"{alias.asname or alias.name}{ending}"


# Reads a project's packaging files, as values; whether its requirements force an old version.

_T = TypeVar("_T")
# In setuptools-scm's order (setuptools_scm._integration.pyproject_reading).
SCM_TABLES: Final = ("setuptools_scm", "vcs-versioning")


class PackagingFiles(Struct, frozen=True, kw_only=True):
    """What pyproject.toml, setup.cfg, setup.py and hatch.toml of one directory hold.

    A file that is missing is empty.
    """

    directory: Path
    pyproject: dict[str, Any]
    cfg: dict[str, dict[str, str]]
    script: SetupScript
    hatch: dict[str, Any]

    @property
    def backend(self) -> str:
        """The object that builds the project (PEP 517; setuptools if none is named)."""
        system = table(self.pyproject, "build-system")
        return str(system.get("build-backend", "setuptools.build_meta"))

    @property
    def tools(self) -> dict[str, Any]:
        """The `[tool]` table."""
        return table(self.pyproject, "tool")

    @property
    def metadata(self) -> dict[str, Any]:
        """The `[project]` table (PEP 621)."""
        return table(self.pyproject, "project")

    @property
    def cfg_metadata(self) -> dict[str, str]:
        """The `[metadata]` section of setup.cfg."""
        return self.cfg.get("metadata", {})

    @property
    def is_version_dynamic(self) -> bool:
        """Whether `[project]` leaves the version to the backend."""
        dynamic = self.metadata.get("dynamic", [])
        return isinstance(dynamic, list) and "version" in dynamic

    @property
    def requires(self) -> list[str]:
        """The build requirements as written, also those of setup.py and setup.cfg."""
        requires = table(self.pyproject, "build-system").get("requires", [])
        if not isinstance(requires, list):
            requires = []
        older = self.cfg.get("options", {}).get("setup_requires", "")
        return [
            *(text for text in requires if isinstance(text, str)),
            *self.script.setup_requires,
            *(line.strip() for line in re.split(r"[\n;]", older) if line.strip()),
        ]

    @property
    def distribution_name(self) -> str | None:
        """The project's name; None if no file states it.

        setuptools-scm's order: setup.cfg before what setuptools knows from pyproject.toml or
        setup().
        """
        names = (
            self.cfg_metadata.get("name"),
            self.metadata.get("name"),
            self.script.name,
            table(self.tools, "poetry").get("name"),
        )
        return next((name for name in names if isinstance(name, str) and name), None)


def read_packaging_files(directory: Path) -> PackagingFiles:
    """Read the packaging files in `directory`.

    Raises UsageError if one cannot be read or parsed (with file and line).
    """
    script = directory / "setup.py"
    return PackagingFiles(
        directory=directory,
        pyproject=_parsed(directory / "pyproject.toml", "TOML", tomllib.loads),
        cfg=_parsed(directory / "setup.cfg", "setup.cfg", _cfg),
        script=_parsed(script, "Python", lambda text: read_setup_script(text, str(script))),
        hatch=_parsed(directory / "hatch.toml", "TOML", tomllib.loads),
    )


def packages(requires: Iterable[str]) -> frozenset[str]:
    """Canonical names (PEP 503) of requirement strings; a string without a name is left out."""
    matches = (re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", text) for text in requires)
    return frozenset(re.sub(r"[-_.]+", "-", match[1]).lower() for match in matches if match)


def table(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The table at `key`; empty if there is none."""
    value = mapping.get(key)
    return value if isinstance(value, dict) else {}


def scm_table(pyproject: Mapping[str, Any]) -> dict[str, Any]:
    """The table that setuptools-scm would read from `pyproject`; empty if there is none."""
    tools = table(pyproject, "tool")
    return next((tools[name] for name in SCM_TABLES if isinstance(tools.get(name), dict)), {})


def _parsed(path: Path, kind: str, parse: Callable[[str], _T]) -> _T:
    """What `parse` makes of a file, of an empty text if it is missing; an error names its line."""
    try:
        return parse(_read_text(path))
    except (tomllib.TOMLDecodeError, configparser.Error, SyntaxError, ValueError) as error:
        named = re.search(r"line:? (\d+)", str(error))
        line = getattr(error, "lineno", None) or (named[1] if named else 1)
        words = str(getattr(error, "msg", None) or error).partition("\n")[0]
        raise UsageError(
            f"{path}:{line}: not valid {kind}: {words}", hint="correct the file"
        ) from error


def _cfg(text: str) -> dict[str, dict[str, str]]:
    # Raw: setuptools does not interpolate, and a `%` in a value is no reference.
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return {section: dict(parser.items(section)) for section in parser.sections()}


def _read_text(path: Path) -> str:
    try:
        # Some editors write a byte-order mark, which tomllib and ast refuse.
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {path}: {error}", hint="the file must be readable and UTF-8"
        ) from error


# One distribution, what computes its version, and the variables that pin it.

# The library's order of prefixes (vcs_versioning.overrides.EnvReader). Older setuptools-scm reads
# only the first, so that is the one we export.
PREFIXES: Final = ("SETUPTOOLS_SCM_PRETEND_VERSION", "VCS_VERSIONING_PRETEND_VERSION")
GENERIC: Final = PREFIXES[0]
# What a pretended version lacks: without it a version file has `__commit_id__ = None`
# (setuptools_scm._overrides PRETEND_METADATA_KEY, since 9.0; earlier ones ignore it).
_METADATA: Final = "SETUPTOOLS_SCM_PRETEND_METADATA"


class VersionSource(Struct, frozen=True, kw_only=True):
    """A tool that computes versions from git, and the `variable` that overrides it for all projects.

    `is_library`: setuptools-scm's library computes the version here; otherwise a build alone tells it.
    `is_scoped`: the library also looks for a variable with the distribution's name in it.
    `options_place` is where its options stand, if that is one place.
    """

    name: str
    variable: str = GENERIC
    is_library: bool = False
    is_scoped: bool = False
    options_place: str = ""


SETUPTOOLS_SCM: Final = VersionSource(name="setuptools-scm", is_library=True, is_scoped=True)
# It calls setuptools-scm's library with the options of hatch's own table, and passes no name on.
HATCH_VCS: Final = VersionSource(
    name="hatch-vcs", is_library=True, options_place="[tool.hatch.version.raw-options]"
)


class Project(Struct, frozen=True, kw_only=True):
    """One distribution and what computes its version.

    `name` is the distribution's name, None if no file states it. `tool` is what a reader calls the
    backend. `source` computes the version; without a source the version stands in a file (`version`
    is the literal, if there is one), unless `advice` says what would help with an unsupported tool.
    `options` are the tool's, `unreadable` those that only running
    setup.py could show. `reads_pyproject`: the setuptools-scm table of `pyproject` applies beneath
    `options` (a call of get_version() reads no file). `reads_generic`: only the variable without a
    distribution's name reaches the tool.
    """

    directory: Path
    name: str | None
    tool: str
    source: VersionSource | None = None
    version: str | None = None
    advice: str | None = None
    pyproject: dict[str, Any] = {}
    options: dict[str, Any] = {}
    unreadable: tuple[str, ...] = ()
    reads_pyproject: bool = False
    reads_generic: bool = False

    @property
    def label(self) -> str:
        """How a report names the project."""
        return self.name or self.directory.name

    @property
    def is_fixed(self) -> bool:
        """Whether the version stands in a file, so that there is nothing to pin."""
        return self.source is None and self.advice is None

    @property
    def options_place(self) -> str:
        """Where the options of the library stand: a table's header, or words for a call."""
        if self.source is not None and self.source.options_place:
            return self.source.options_place
        if self.reads_pyproject:
            return "[tool.setuptools_scm]"
        return "the get_version() call of setup.py"

    @property
    def shared_variables(self) -> tuple[str, ...]:
        """The variables that the tool reads for every project, whatever its name."""
        if self.source is None:
            return ()
        return PREFIXES if self.source.variable == GENERIC else (self.source.variable,)

    @property
    def exported_variables(self) -> tuple[str, ...]:
        """The variables that pin this project, and as few other projects as possible.

        The variable without a name sets the version of every project that is built in the same
        environment (https://github.com/pypa/setuptools-scm/issues/321).
        """
        if self.source is None:
            return ()
        generic = (self.source.variable,)
        if not self.source.is_library or (self.reads_generic and not self.source.is_scoped):
            return generic
        scoped = (f"{GENERIC}_FOR_{suffix(self.name)}",) if self.name else ()
        return (*generic, *scoped) if self.reads_generic else scoped

    def commit_variables(self, described: Described) -> Mapping[str, str]:
        """Variables that keep the commit beside a pinned version, for templates of a version file.

        The value is a TOML table with the fields of the library's PretendMetadataDict.
        """
        if described.node is None or self.source is None or not self.source.is_library:
            return {}
        fields = [f"node = {json.dumps(described.node)}"]
        if described.distance is not None:
            fields.append(f"distance = {described.distance}")
        fields.append(f"dirty = {json.dumps(described.dirty)}")
        names = (name.replace(GENERIC, _METADATA) for name in self.exported_variables)
        return dict.fromkeys(names, f"{{{', '.join(fields)}}}")

    def deciding_variable(self, environ: Mapping[str, str]) -> str | None:
        """The variable in `environ` that the tool would take the version from; None if none is.

        The first that exists wins, even an empty one, and an empty value means "ask git"
        (vcs_versioning.overrides EnvReader.read, _read_pretended_version_for). So an empty scoped
        variable hides a generic one.
        """
        names: Sequence[str] = self.shared_variables
        is_named = self.source is not None and self.source.is_library and not self.reads_generic
        if self.name is not None and is_named:
            names = [f"{prefix}_FOR_{suffix(self.name)}" for prefix in PREFIXES] + list(PREFIXES)
            if not any(name in environ for name in names):
                names = list(_misspelt(environ, self.name))
        for name in names:
            if name in environ:
                return name if environ[name] else None
        return None

    def tag_setting(self, glob: str, excluded: Sequence[str]) -> str:
        """Text for the project's files: only tags matching `glob`, without those in `excluded`.

        The option works with every setuptools-scm since 7.1.
        """
        if self.source is None or not self.source.is_library:
            return self.advice or ""
        options = [f"--exclude={name}" for name in excluded]
        command = ["git", "describe", "--dirty", "--tags", "--long", "--match", glob, *options]
        if not self.options_place.startswith("["):
            return f"get_version(git_describe_command={command!r})  # in setup.py"
        setting = json.dumps(command, ensure_ascii=False)
        return f"{self.options_place}\ngit_describe_command = {setting}"


class NotComputable(Exception):  # noqa: N818 - not an error of ci-doctor: it ends as a finding
    """Why a version cannot be computed here; `finding` is for the report."""

    def __init__(self, rule: Rule, summary: str, *, remedy: NextStep | None = None) -> None:
        super().__init__(summary)
        self.finding = rule.finding(summary, remedy=remedy or rule.remedy)


def suffix(name: str) -> str:
    """A distribution's name as part of a variable's name: `my--pkg.x` is MY_PKG_X.

    That is PEP 503's form, then upper case and underscores.
    """
    return _canonical(name).replace("-", "_").upper()


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.lower()).strip("-")


def _misspelt(environ: Mapping[str, str], name: str) -> Iterator[str]:
    """Variables with another spelling of `name`: the library compares canonical names last."""
    for prefix in PREFIXES:
        start = f"{prefix}_FOR_"
        for variable in environ:
            spelt = variable.removeprefix(start)
            if spelt != variable and _canonical(spelt) == _canonical(name):
                yield variable
