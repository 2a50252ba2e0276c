# SPDX-License-Identifier: Apache-2.0
"""The size and density of the package's code.

    python benchmarks/shape.py                        prints the figures of ci_doctor
    python benchmarks/shape.py path/to/tox …          prints those of other packages beside them
    python benchmarks/shape.py --record               also appends the table to benchmarks/RESULTS.md

Give other packages as directories, for example below the site-packages of a virtual environment. All are counted alike.
A *filled line* is neither blank nor a comment alone; a *code line* is one outside docstrings. Density is measured
against filled lines, because docstrings are syntax nodes too, and size against code lines. The aims are values to come
near to, taken from pre-commit, tox, nox, coverage.py and structlog, so the exit status is 0 whatever the figures.
"""

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.results import options, record, table

OURS = Path(__file__).parents[1] / "ci_doctor"
COMPLEX = 8
UNKNOWN = "–"
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert, ast.match_case)  # fmt: skip
_SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:|pylint:|ruff:|ty:|mypy:|pyright:)")
_LICENCE = re.compile(r"#\s*SPDX-")
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


class Function(NamedTuple):
    """A function's code lines, and its cyclomatic complexity with comprehensions counted."""

    lines: int
    complexity: int


class Source(NamedTuple):
    """The figures of one module; `comments` excludes suppressions and the licence line."""

    code_lines: int
    filled_lines: int
    nodes: int
    comprehensions: int
    conditionals: int
    comments: int
    suppressions: int
    functions: tuple[Function, ...]


class Package(NamedTuple):
    """A package with its modules that hold code."""

    name: str
    sources: tuple[Source, ...]

    def total(self, figure: str) -> int:
        return sum(getattr(each, figure) for each in self.sources)

    def ratio(self, figure: str, to: str, times: int) -> str:
        return f"{times * self.total(figure) / self.total(to):.1f}"

    @property
    def functions(self) -> list[Function]:
        return [function for each in self.sources for function in each.functions]


def read_source(text: str) -> Source:
    """Measure `text`. Raises SyntaxError if it is not Python of this interpreter's version."""
    nodes = list(ast.walk(ast.parse(text)))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    filled = _filled_lines(text, tokens)
    code = filled - _docstring_lines(nodes)
    notes = [each.string for each in tokens if each.type == tokenize.COMMENT]
    suppressions = sum(bool(_SUPPRESSION.search(note)) for note in notes)
    return Source(
        code_lines=len(code),
        filled_lines=len(filled),
        nodes=len(nodes),
        comprehensions=sum(isinstance(node, _COMPREHENSIONS) for node in nodes),
        conditionals=sum(isinstance(node, ast.IfExp) for node in nodes),
        comments=sum(not _LICENCE.match(note) for note in notes) - suppressions,
        suppressions=suppressions,
        functions=tuple(
            Function(len(_lines_of(node) & code), complexity(node))
            for node in nodes
            if isinstance(node, _FUNCTIONS)
        ),
    )


def complexity(function: ast.AST) -> int:
    """McCabe's figure: one, and one for each branch.

    Each `and` or `or` counts too, and each loop and each condition of a comprehension. Linters
    leave these out, so a dense comprehension passes their limit.
    """
    total = 1
    for node in ast.walk(function):
        if isinstance(node, _BRANCHES):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
    return total


def _filled_lines(text: str, tokens: Sequence[tokenize.TokenInfo]) -> set[int]:
    """The numbers of the lines that hold a token; blank lines inside a string do not count."""
    lines = text.splitlines()
    filled: set[int] = set()
    for token in tokens:
        if token.type not in _LAYOUT and token.type != tokenize.COMMENT:
            filled.update(range(token.start[0], token.end[0] + 1))
    return {number for number in filled if lines[number - 1].strip()}


def _docstring_lines(nodes: Sequence[ast.AST]) -> set[int]:
    lines: set[int] = set()
    for node in nodes:
        if isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS)) and ast.get_docstring(node):
            lines |= _lines_of(node.body[0])
    return lines


def _lines_of(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def read_package(directory: Path) -> Package:
    """Measure every module below `directory`; modules without code do not count.

    Raises SystemExit if no module in it holds code, or one needs another version of Python.
    """
    paths = sorted(path for path in directory.rglob("*.py") if path.is_file())
    try:
        sources = [read_source(path.read_text(encoding="utf-8")) for path in paths]
    except SyntaxError as error:
        raise SystemExit(f"{directory}: {error}") from error
    if not any(source.code_lines for source in sources):
        raise SystemExit(f"{directory}: no Python code below it")
    return Package(directory.resolve().name, tuple(each for each in sources if each.code_lines))


def _complex(package: Package) -> str:
    complexities = [each.complexity > COMPLEX for each in package.functions]
    return f"{100 * sum(complexities) / len(complexities):.1f}" if complexities else UNKNOWN


def _spread(values: Sequence[int]) -> str:
    """Median, 90th percentile and maximum."""
    if not values:
        return UNKNOWN
    return f"{statistics.median(values):.0f} / {sorted(values)[int(0.9 * len(values))]} / {max(values)}"


_FIGURES: tuple[tuple[str, str, Callable[[Package], str]], ...] = (
    ("modules / code lines", "", lambda p: f"{len(p.sources)} / {p.total('code_lines') / 1000:.1f}k"),
    ("module median / p90 / max", "max 700", lambda p: _spread([s.code_lines for s in p.sources])),
    ("function median / p90 / max", "max 50", lambda p: _spread([f.lines for f in p.functions])),
    ("syntax nodes a line", "6.8", lambda p: p.ratio("nodes", "filled_lines", 1)),
    ("comprehensions per 100 lines", "1.5", lambda p: p.ratio("comprehensions", "filled_lines", 100)),
    ("conditional expressions per 100 lines", "1.4", lambda p: p.ratio("conditionals", "filled_lines", 100)),
    ("comments per 100 code lines", "5", lambda p: p.ratio("comments", "code_lines", 100)),
    (f"complexity > {COMPLEX}, comprehensions counted, %", "0", _complex),
    ("lint suppressions per 1000 code lines", "5", lambda p: p.ratio("suppressions", "code_lines", 1000)),
)  # fmt: skip


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("packages", nargs="*", type=Path, metavar="DIR", help="to compare with")
    arguments = parser.parse_args()
    # Ours last: what was named wrongly is said before seconds are spent on it.
    others = [read_package(each) for each in arguments.packages]
    packages = [read_package(OURS), *others]
    rows = [(title, *map(measure, packages), aim) for title, aim, measure in _FIGURES]
    lines = table(" | ".join(["", *(each.name for each in packages), "aim"]), rows)
    print(*lines, sep="\n")
    if arguments.record:
        record("shape of the code", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
