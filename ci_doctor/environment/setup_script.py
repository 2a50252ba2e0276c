# SPDX-License-Identifier: Apache-2.0
"""Pure. The version of a setup.py, from its syntax tree: the script never runs."""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

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
