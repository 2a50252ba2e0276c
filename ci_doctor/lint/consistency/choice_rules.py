# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about arguments and members of enums that a program does not have."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import Enum
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct, structs

from ci_doctor.lint.consistency.repository import RepositoryFiles, comes_from, is_test, line_place
from ci_doctor.lint.lint_rule import Example, LintRule, Place, Violation
from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.lint.source_files import StartedProgram, started_programs
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule
from ci_doctor.model.suggestion import nearest


class OptionChoices(Struct, frozen=True, kw_only=True):
    """An option, the values that it accepts, and the names of the results of `parse_args`."""

    option: str
    accepted: frozenset[str]
    namespaces: frozenset[str]
    place: Place


def option_choices(program: PythonProgram) -> dict[str, OptionChoices]:
    """By attribute of the parsed arguments. An option whose list is computed is left out."""
    calls: dict[str, list[ast.Call]] = defaultdict(list)
    for call in program.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            option = _option(call)
            if option is not None:
                calls[_attribute(call, option)].append(call)
    namespaces = _namespaces(program)
    assigned = _assigned(program)
    known: dict[str, OptionChoices] = {}
    for attribute, added in calls.items():
        accepted = _accepted(added)
        option = _option(added[0])
        if accepted is None or option is None or attribute in assigned:
            continue
        known[attribute] = OptionChoices(
            option=option,
            accepted=accepted,
            namespaces=namespaces,
            place=program.place(added[0]),
        )
    return known


def _accepted(calls: list[ast.Call]) -> frozenset[str] | None:
    """What all parsers of the program accept together; None if one accepts anything."""
    accepted: set[str] = set()
    for call in calls:
        keywords = {each.arg: each.value for each in call.keywords}
        listed = _listed(keywords)
        if listed is None:
            return None
        accepted |= listed
        for word in ("default", "const"):
            value = keywords.get(word)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                accepted.add(value.value)
    return frozenset(accepted)


def _listed(keywords: dict[str | None, ast.expr]) -> set[str] | None:
    """The constants of `choices`; None if one is computed, or a `type` changes what is compared."""
    listed = keywords.get("choices")
    kind = keywords.get("type")
    is_text = kind is None or (isinstance(kind, ast.Name) and kind.id == "str")
    if not is_text or not isinstance(listed, ast.List | ast.Tuple | ast.Set):
        return None
    values = {each.value for each in listed.elts if isinstance(each, ast.Constant)}
    texts = {value for value in values if isinstance(value, str)}
    return texts if len(texts) == len(listed.elts) else None


def _option(call: ast.Call) -> str | None:
    """The long option; None for a positional argument."""
    words = [
        each.value
        for each in call.args
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    return next((word for word in words if word.startswith("--")), None)


def _attribute(call: ast.Call, option: str) -> str:
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    return option.lstrip("-").replace("-", "_")


def _namespaces(program: PythonProgram) -> frozenset[str]:
    """The names that the program gives to the results of `parse_args`."""
    names: set[str] = set()
    for node in program.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        called = node.value.func
        if not isinstance(called, ast.Attribute):
            continue
        target = node.targets[0]
        if called.attr == "parse_args" and isinstance(target, ast.Name):
            names.add(target.id)
        elif called.attr == "parse_known_args" and isinstance(target, ast.Tuple):
            first = target.elts[0]
            names |= {first.id} if isinstance(first, ast.Name) else set()
    return frozenset(names)


def _assigned(program: PythonProgram) -> set[str]:
    """Attributes that the program itself sets: they may hold what no parser accepts."""
    return {
        node.attr
        for node in program.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }


# The enums that a repository defines, each by a name that only one class has.

_CLASS = re.compile(r"^[ \t]*class[ \t]+(\w+)", re.MULTILINE)
_ENUM = re.compile(r"^class[ \t]+(\w+)[ \t]*\([^)]*\b(?:Str|Int)?(?:Enum|Flag)\b", re.MULTILINE)
# Bases of the standard library; another base may bring members of its own.
_BASES = {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "str", "int"}


class EnumClass(Struct, frozen=True, kw_only=True):
    """An enum. values: those of all members, None if one is computed or others are accepted."""

    name: str
    members: frozenset[str]
    attributes: frozenset[str]
    values: frozenset[str | int] | None
    place: Place


def enums(repository: RepositoryFiles) -> dict[str, EnumClass]:
    """By name. A name that two classes have means nothing for sure, and is left out."""
    names = Counter(
        name for file in repository.python for name in _CLASS.findall(repository.files[file])
    )
    known: dict[str, EnumClass] = {}
    for program in repository.python_with("enum", _ENUM):
        for node in program.tree.body:
            if isinstance(node, ast.ClassDef) and names[node.name] == 1:
                enum = _enum(program, node)
                if enum is not None:
                    known[node.name] = enum
    return known


def _enum(program: PythonProgram, node: ast.ClassDef) -> EnumClass | None:
    bases = [program.dotted(base).rpartition(".")[2] for base in node.bases]
    if not set(bases) <= _BASES or node.keywords or node.decorator_list:
        return None
    values: dict[str, ast.expr] = {}
    attributes: set[str] = set()
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            values[statement.targets[0].id] = statement.value
            continue
        name = _member_of(statement)
        if name is None:
            return None  # members under a condition
        attributes.add(name)
    if not values:
        return None
    return EnumClass(
        name=node.name,
        members=frozenset(values),
        attributes=frozenset(attributes),
        values=None if "_missing_" in attributes else _constants(list(values.values())),
        place=Place(file=program.file, line=node.lineno, end_line=node.lineno),
    )


def _member_of(statement: ast.stmt) -> str | None:
    """The name that a statement gives to the class; empty for none, None if it cannot be known."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement.name
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    return "" if isinstance(statement, ast.Expr | ast.Pass) else None


def _constants(nodes: list[ast.expr]) -> frozenset[str | int] | None:
    values: set[str | int] = set()
    for node in nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str | int):
            return None
        values.add(node.value)
    return frozenset(values)


# Values of an option that its argparse parser refuses, in the program and in scripts.

_CHOICES = re.compile(r"choices\s*=")
_PROGRAM = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--backend", choices=["vllm", "sglang"])
args = parser.parse_args()
"""

UNACCEPTED_ARGUMENT = LintRule(
    rule=Rule(
        id="config/unaccepted-argument",
        severity=Severity.ERROR,
        meaning=(
            "A parser lists the values that an option accepts, and code compares the option with "
            "another one, or a script passes another one. The branch is never taken; the command "
            "ends with status 2."
        ),
        remedy="Add the value to `choices`, or remove what is left of it.",
    ),
    bad=(
        (
            Example(
                file="benchmarks/serve.py",
                text=_PROGRAM + 'if args.backend == "trtllm":\n    warm_up()\n',
            ),
        ),
        (
            Example(file="benchmarks/serve.py", text=_PROGRAM),
            Example(
                file=".buildkite/run.sh",
                text="python3 benchmarks/serve.py \\\n  --backend trtllm\n",
            ),
        ),
    ),
    good=(
        (
            Example(
                file="benchmarks/serve.py",
                text=_PROGRAM + 'if args.backend == "vllm":\n    warm_up()\n',
            ),
            Example(
                file=".buildkite/run.sh",
                text='python3 benchmarks/serve.py --backend "$1"\npython3 other.py --backend x\n',
            ),
        ),
    ),
)


def unaccepted_argument(repository: RepositoryFiles) -> Iterator[Violation]:
    """Comparisons in the program itself, and commands of scripts that start it."""
    by_name: dict[str, list[tuple[str, dict[str, OptionChoices]]]] = defaultdict(list)
    for program in repository.python_with("add_argument", _CHOICES):
        choices = option_choices(program)
        if not choices:
            continue
        by_name[PurePosixPath(program.file).name].append((program.file, choices))
        if not is_test(program.file):
            yield from _compared(repository, program, choices)
    for file in repository.settings if by_name else ():
        yield from _passed(repository, file, by_name)


def _compared(
    repository: RepositoryFiles, program: PythonProgram, choices: dict[str, OptionChoices]
) -> Iterator[Violation]:
    for node in program.nodes:
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
            continue
        left, right = node.left, node.comparators[0]
        if not isinstance(left, ast.Attribute) or not isinstance(left.value, ast.Name):
            continue
        known = choices.get(left.attr)
        if known is None or left.value.id not in known.namespaces:
            continue
        if isinstance(right, ast.Constant) and isinstance(right.value, str):
            place = program.place(node)
            # Such a branch is dead, which breaks nothing by itself.
            for each in _judged(repository, known, right.value, place, "is compared with"):
                yield structs.replace(each, severity=Severity.WARNING)


def _passed(
    repository: RepositoryFiles,
    file: str,
    by_name: dict[str, list[tuple[str, dict[str, OptionChoices]]]],
) -> Iterator[Violation]:
    text = repository.files[file]
    for started in started_programs(text):
        options = _options_of(started, by_name)
        for known in options.values():
            option = re.escape(known.option)
            passed = re.compile(rf"(?<!\S){option}[= ]\s*(?:\\\r?\n\s*)?([\w.-]+)(?=\s|\\|$)")
            for match in passed.finditer(started.arguments):
                place = line_place(file, text, started.offset + match.start())
                yield from _judged(repository, known, match[1], place, "is given")


def _options_of(
    started: StartedProgram, by_name: dict[str, list[tuple[str, dict[str, OptionChoices]]]]
) -> dict[str, OptionChoices]:
    """Those of the one program that it can be: of two programs of one name, none is meant for sure."""
    same = [each for name, each in by_name.get(started.file.name, ()) if started.may_be(name)]
    return same[0] if len(same) == 1 else {}


def _judged(
    repository: RepositoryFiles, known: OptionChoices, value: str, place: Place, verb: str
) -> Iterator[Violation]:
    if value in known.accepted:
        return
    near = nearest(value, known.accepted)
    listed = ", ".join(sorted(known.accepted))
    add = f"Add `{value}` to {known.place.file}:{known.place.line}, or remove it here"
    yield repository.violation(
        UNACCEPTED_ARGUMENT,
        place,
        f"{known.option} {verb} `{value}`, and only {listed} are accepted",
        remedy=f"Did you mean `{near}`?" if near is not None else add,
        related=(known.place,),
    )


# A member or a value of an enum that the enum does not have.

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

UNKNOWN_ENUM_MEMBER = LintRule(
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


def unknown_enum_member(repository: RepositoryFiles) -> Iterator[Violation]:
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
        UNKNOWN_ENUM_MEMBER,
        program.place(node),
        f"{enum.name} has no `{word}` ({enum.place.file}:{enum.place.line})",
        remedy=hint,
        related=(enum.place,),
    )


RULES: Final = (
    (UNACCEPTED_ARGUMENT, unaccepted_argument),
    (UNKNOWN_ENUM_MEMBER, unknown_enum_member),
)
