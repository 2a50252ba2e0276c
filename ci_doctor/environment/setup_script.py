# SPDX-License-Identifier: Apache-2.0
"""What a setup.py says about its version, read from its syntax tree and never by running it."""

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

# Stands for names that only running the script can tell.
_UNREADABLE: Final = "*"

# Spellings of "the directory of this file"; `Path` covers pathlib.Path too (the prefix is dropped before comparing).
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


class ScmOptions(Struct, frozen=True, kw_only=True):
    """Options given to setuptools-scm.

    `values` as Python values, with `__file__` as an absolute path; `unreadable` names the options that only running the
    script can tell (`*` where not even the names are known).
    """

    values: dict[str, Any]
    unreadable: tuple[str, ...] = ()


class SetupScript(Struct, frozen=True, kw_only=True):
    """The version-related parts of one setup.py.

    `version` is a literal `setup(version=...)`; `computes_version` says that something else stands there, and
    `has_unreadable_keywords` that setup() is given `**keywords` which only running the script can tell.
    """

    name: str | None = None
    version: str | None = None
    computes_version: bool = False
    has_unreadable_keywords: bool = False
    modules: frozenset[str] = frozenset()
    get_version_calls: tuple[ScmOptions, ...] = ()
    use_scm_version: ScmOptions | None = None


def read_setup_script(source: str, path: str) -> SetupScript:
    """Read `source`, the text of the setup.py at the absolute `path`; raises SyntaxError (ValueError for a null byte).

    Both documented uses are recognised: the keyword `setup(use_scm_version=...)` and a call of
    `setuptools_scm.get_version(...)` under any imported name
    (https://setuptools-scm.readthedocs.io/en/latest/usage/#setuppy-usage-deprecated).
    """
    tree = ast.parse(source, path)
    reader = _Reader(_constants(tree), path)
    keywords = reader.setup_keywords(tree)
    version = keywords.get("version")
    literal = reader.text(version)
    scm = keywords.get("use_scm_version")
    return SetupScript(
        name=reader.text(keywords.get("name")),
        version=literal,
        computes_version=version is not None and literal is None,
        has_unreadable_keywords=_UNREADABLE in keywords,
        modules=frozenset(_imported_modules(tree)),
        get_version_calls=tuple(
            reader.call_options(call) for call in _calls_of(tree, {"setuptools_scm"}, "get_version")
        ),
        use_scm_version=None if scm is None else reader.keyword_options(scm),
    )


class _Reader:
    """Evaluates what can be known without running the script."""

    def __init__(self, constants: Mapping[str, ast.expr], path: str) -> None:
        self._constants = constants
        self._path = path

    def value(self, node: ast.expr) -> Any:
        """The value of `node`; raises ValueError where only running it can tell."""
        node = self._resolve(node)
        if isinstance(node, ast.Name) and node.id == "__file__":
            return self._path
        if ast.unparse(node).replace("pathlib.Path", "Path") in _HERE:
            return self._path.rpartition("/")[0]
        return ast.literal_eval(node)

    def text(self, node: ast.expr | None) -> str | None:
        try:
            found = None if node is None else self.value(node)
        except ValueError:
            return None
        return found if isinstance(found, str) else None

    def keyword_options(self, node: ast.expr) -> ScmOptions | None:
        """Options of `use_scm_version=`: True, a dict, or something that only running it can tell; None for a false value."""
        node = self._resolve(node)
        if isinstance(node, ast.Constant):
            return ScmOptions(values={}) if node.value else None
        pairs = self._pairs(node)
        return (
            ScmOptions(values={}, unreadable=(_UNREADABLE,))
            if pairs is None
            else self._options(pairs)
        )

    def setup_keywords(self, tree: ast.Module) -> dict[str, ast.expr]:
        """The keywords of the first `setup(...)` call, also those of a dict that is spread into it."""
        for call in _calls_of(
            tree, {"setuptools", "distutils.core"}, "setup", "setup", "setuptools.setup"
        ):
            pairs = [pair for keyword in call.keywords for pair in self._spread(keyword)]
            return {name or _UNREADABLE: value for name, value in pairs}
        return {}

    def _spread(self, keyword: ast.keyword) -> list[tuple[str | None, ast.expr]]:
        pairs = None if keyword.arg else self._pairs(keyword.value)
        return [(keyword.arg, keyword.value)] if pairs is None else pairs

    def _pairs(self, node: ast.expr) -> list[tuple[str | None, ast.expr]] | None:
        """What a dict or a `dict(...)` holds, None for a key that only running it can tell; None for anything else."""
        node = self._resolve(node)
        if isinstance(node, ast.Dict):
            return [
                (self.text(key), value) for key, value in zip(node.keys, node.values, strict=True)
            ]
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "dict"
            and not node.args
        ):
            return [(keyword.arg, keyword.value) for keyword in node.keywords]
        return None

    def call_options(self, call: ast.Call) -> ScmOptions:
        """Options of a `get_version(...)` call; `root` is its first positional parameter."""
        names = ["root", *[None] * len(call.args)]
        positional = list(zip(names, call.args, strict=False))
        return self._options(
            [*positional, *((keyword.arg, keyword.value) for keyword in call.keywords)]
        )

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
        seen: set[str] = set()
        while isinstance(node, ast.Name) and node.id in self._constants and node.id not in seen:
            seen.add(node.id)
            node = self._constants[node.id]
        return node


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Module-level names that are bound exactly once."""
    bound: dict[str, list[ast.expr]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    bound.setdefault(target.id, []).append(statement.value)
    return {name: values[0] for name, values in bound.items() if len(values) == 1}


def _imported_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def _calls_of(
    tree: ast.Module, modules: Collection[str], function: str, *known: str
) -> Iterator[ast.Call]:
    """The calls of `function` from one of `modules` under any imported name, or under a `known` one."""
    spellings = set(known)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            spellings.update(
                f"{alias.asname or alias.name}.{function}"
                for alias in node.names
                if alias.name in modules
            )
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            spellings.update(
                alias.asname or alias.name for alias in node.names if alias.name == function
            )
    return (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in spellings
    )
