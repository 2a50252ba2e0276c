# SPDX-License-Identifier: Apache-2.0
"""Pure. A member or a value of an enum that the enum does not have."""

import ast
import re
from collections.abc import Iterator
from enum import Enum

from ci_doctor.lint.consistency.enums import EnumClass, enums
from ci_doctor.lint.consistency.import_path import comes_from
from ci_doctor.lint.consistency.repository import RepositoryFiles, is_test
from ci_doctor.lint.lint_rule import Example, LintRule
from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule
from ci_doctor.model.suggestion import nearest

_USE = re.compile(r"""\b([A-Z]\w+)(?:\.([A-Z][A-Z0-9_]*)\b|\(["']([^"'\n]*)["']\))""")
_INHERITED = frozenset(dir(Enum)) | {"name", "value"}
_CAUGHT = {"AttributeError", "ValueError", "KeyError", "Exception"}

_METHOD = """\
from enum import Enum

class WorkerMethod(str, Enum):
    FORK = "fork"
    SPAWN = "spawn"
"""
_SERVER = """\
from engine.method import WorkerMethod

def serve(method):
    if method is WorkerMethod.FORKSERVER:
        prepare()
"""

RULE = LintRule(
    rule=Rule(
        id="config/unknown-enum-member",
        severity=Severity.ERROR,
        meaning=(
            "Code names a member of an enum of this repository that the enum does not have, or "
            "makes one of a value that it does not accept. The line raises as soon as it runs."
        ),
        remedy="Name a member that exists, or remove the branch.",
    ),
    bad=(
        (
            Example(file="engine/method.py", text=_METHOD),
            Example(file="engine/server.py", text=_SERVER),
        ),
        (
            Example(file="engine/method.py", text=_METHOD),
            Example(
                file="engine/server.py",
                text='from .method import WorkerMethod\nmethod = WorkerMethod("forkserver")\n',
            ),
        ),
    ),
    good=(
        (
            Example(file="engine/method.py", text=_METHOD),
            Example(file="engine/server.py", text=_SERVER.replace("FORKSERVER", "SPAWN")),
        ),
        (
            Example(file="engine/method.py", text=_METHOD),
            Example(
                file="engine/server.py",
                text="from other.method import WorkerMethod\nmethod = WorkerMethod.FORKSERVER\n",
            ),
        ),
    ),
)


def check(repository: RepositoryFiles) -> Iterator[Violation]:
    """Members and values that no enum of that name has."""
    known = enums(repository)
    for file in repository.python if known else ():
        if not _may_be_unknown(repository.files[file], known):
            continue
        program = repository.program(file)
        if program is None:
            continue
        available = _available(program, known)
        for node in program.nodes:
            problem = _problem(node, available)
            if (
                problem is not None
                and isinstance(node, ast.expr)
                and not _is_guarded(program, node)
            ):
                enum, word, names = problem
                yield _violation(repository, program, node, enum, word, names)


def _may_be_unknown(text: str, known: dict[str, EnumClass]) -> bool:
    """Whether the text alone holds a suspect: most files need not be parsed."""
    for name, member, value in _USE.findall(text):
        enum = known.get(name)
        if enum is None:
            continue
        if member and member not in enum.members:
            return True
        if not member and enum.values is not None and value not in enum.values:
            return True
    return False


def _available(program: PythonProgram, known: dict[str, EnumClass]) -> dict[str, EnumClass]:
    """The enums that this file defines or imports from the repository."""
    available = {name: each for name, each in known.items() if each.place.file == program.file}
    for node in program.nodes:
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            enum = known.get(alias.name)
            if enum is not None and comes_from(node, program.file, enum.place.file):
                available[alias.asname or alias.name] = enum
    return {name: each for name, each in available.items() if not _is_rebound(program, name, each)}


def _is_rebound(program: PythonProgram, name: str, enum: EnumClass) -> bool:
    """Whether the file gives the name another meaning somewhere, or its enum another member."""
    for node in program.nodes:
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.arg) and node.arg == name:
            return True
        if isinstance(node, ast.ClassDef) and node.name == name:
            return program.file != enum.place.file
    return False


def _problem(
    node: ast.AST, available: dict[str, EnumClass]
) -> tuple[EnumClass, str, frozenset[str]] | None:
    """The enum, the word that it lacks, and the words that it has."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        enum = available.get(node.value.id)
        if enum is None or not node.attr.isupper() or not isinstance(node.ctx, ast.Load):
            return None
        if node.attr in enum.members | enum.attributes | _INHERITED:
            return None
        return enum, node.attr, enum.members
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        enum = available.get(node.func.id)
        value = node.args[0]
        if enum is None or enum.values is None or not isinstance(value, ast.Constant):
            return None
        if isinstance(value.value, str) and value.value not in enum.values:
            return enum, value.value, frozenset(map(str, enum.values))
    return None


def _is_guarded(program: PythonProgram, node: ast.AST) -> bool:
    """Whether the code expects that the member may be missing, or tests that it is refused."""
    for above in program.parents(node):
        if isinstance(above, ast.Try):
            words = {word for handler in above.handlers for word in _handled(program, handler)}
            if not words or words & _CAUGHT:
                return True
        if isinstance(above, ast.If | ast.IfExp) and "hasattr" in ast.unparse(above.test):
            return True
        if isinstance(above, ast.With) and is_test(program.file):
            return True
    return False


def _handled(program: PythonProgram, handler: ast.ExceptHandler) -> list[str]:
    kind = handler.type
    if kind is None:
        return ["Exception"]
    elements = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return [program.dotted(element) for element in elements]


def _violation(
    repository: RepositoryFiles,
    program: PythonProgram,
    node: ast.expr,
    enum: EnumClass,
    word: str,
    names: frozenset[str],
) -> Violation:
    near = nearest(word, names)
    hint = f"Did you mean `{near}`?" if near is not None else "It has " + ", ".join(sorted(names))
    return repository.violation(
        RULE,
        program.place(node),
        f"{enum.name} has no `{word}` ({enum.place.file}:{enum.place.line})",
        remedy=hint,
        related=(enum.place,),
    )
