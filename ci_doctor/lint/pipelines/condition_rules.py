# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about conditions of a step, and about values that a matrix or the upload puts in."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Violation
from ci_doctor.lint.pipelines.pipeline_file import (
    FileKind,
    PipelineContext,
    PipelineFile,
    buildkite,
    job_steps,
    words,
    workflow,
)
from ci_doctor.lint.pipelines.scripts import command_texts
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule
from ci_doctor.syntax.yaml_nodes import MappingNode, Node, ScalarNode, items_of, mapping_of, walk

UNREADABLE_CONDITION: Final = LintRule(
    rule=Rule(
        id="pipeline/unreadable-condition",
        severity=Severity.ERROR,
        meaning="A condition is no expression of the language that reads it, so the upload or the workflow is refused.",
        remedy="Buildkite: `==`, `!=`, `=~`, `!~`, `&&`, `||`, `!`, texts in quotes. GitHub: texts in single quotes only.",
    ),
    bad=(
        buildkite("steps:\n  - command: make\n    if: build.branch = 'main'\n"),
        buildkite(
            "steps:\n  - command: make\n    if: build.branch == 'main' and build.tag != null\n"
        ),
        buildkite("steps:\n  - command: make\n    if: (build.branch == 'main'\n"),
        buildkite(
            "steps:\n  - command: make\n    if: build.branch == 'main' & build.tag == null\n"
        ),
        buildkite("steps:\n  - command: make\n    if: build.branch == main\n"),
        buildkite("steps:\n  - command: make\n    if: build.brnach == 'main'\n"),
        buildkite('steps:\n  - command: make\n    if: "build.message =~ /skip"\n'),
        buildkite("steps:\n  - command: make\n    if: ${{ build.branch == 'main' }}\n"),
        job_steps('- run: make\n  if: github.ref == "refs/heads/main"\n'),
        job_steps("- run: make\n  if: github.ref = 'refs/heads/main'\n"),
        job_steps("- run: make\n  if: ${{ (github.ref == 'x' }}\n"),
        job_steps("- run: make\n  if: success() and github.ref == 'x'\n"),
    ),
    good=(
        buildkite(
            "steps:\n  - command: make\n    if: build.branch == 'main' && build.tag != null\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    if: build.message !~ /skip (it|that)/i || !build.pull_request.draft\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    if: |\n      // only on main = here\n      build.branch == \"main\" && build.env('A') != null\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    if: build.creator.teams includes 'a' && (build.source == \"ui\")\n"
        ),
        buildkite("steps:\n  - command: make\n    if: build.branch == pipeline.default_branch\n"),
        job_steps(
            "- run: make\n  if: github.ref == 'refs/heads/main' && contains(github.event.head_commit.message, 'it''s \"x\"')\n"
        ),
        job_steps("- run: make\n  if: ${{ always() && needs.a.result != 'skipped' }}\n"),
    ),
)

_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*)"
    r"|(?P<text>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<interpolated>\$\$?\{[^}]*\}|\$\$?\w+)"
    r"|(?P<operator>==|!=|=~|!~|&&|\|\||[!(),<>]|>=|<=)"
    r"|(?P<word>[A-Za-z_][\w.\[\]-]*)"
    r"|(?P<number>-?\d+)"
)
_REGEX = re.compile(r"\s*/(?:\\.|[^/\\\n])+/[a-z]*")
_EXPRESSION = re.compile(r"\$\{\{((?:(?!\$\{\{).)*?)\}\}", re.DOTALL)
_GITHUB_TEXT = re.compile(r"'(?:[^']|'')*'")
_WORDS: Final = frozenset(
    {"true", "false", "null", "includes", "build", "pipeline", "organization", "step"}
)
_BUILD: Final = words(
    "author.email author.id author.name author.teams branch commit creator.email creator.id creator.name "
    "creator.teams creator.verified env id message merge_queue.base_branch merge_queue.base_commit number "
    "pull_request.base_branch pull_request.id pull_request.draft pull_request.label pull_request.labels "
    "pull_request.repository pull_request.repository.fork source source_event.action "
    "source_event.type state tag triggered_from triggered_by"
)


def unreadable_condition(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Conditions of steps and jobs; nothing of a generator, which may read them itself."""
    if pipeline.kind is FileKind.BUILDKITE:
        nodes = [step.node for step in pipeline.steps]
        reader = _buildkite_problem
    elif pipeline.kind in (FileKind.WORKFLOW, FileKind.ACTION):
        nodes = [*(job.node for job in pipeline.jobs), *(step.node for step in pipeline.steps)]
        reader = _github_problem
    else:
        return
    for condition in conditions(nodes):
        problem = reader(condition.value)
        if problem:
            yield pipeline.violation(
                UNREADABLE_CONDITION, condition, f"the condition cannot be read: {problem}"
            )


def conditions(nodes: list[MappingNode]) -> Iterator[ScalarNode]:
    """The texts of `if`, each once."""
    visited: set[int] = set()
    for node in nodes:
        condition = node.get("if")
        if isinstance(condition, ScalarNode) and id(condition) not in visited:
            visited.add(id(condition))
            yield condition


def _buildkite_problem(text: str) -> str | None:
    if "${{" in text:
        return "`${{ }}` is GitHub's form"
    depth = position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return _stray(text[position:])
        word = match.group()
        position = match.end()
        if word in ("=~", "!~"):
            expression = _REGEX.match(text, position)
            position = expression.end() if expression else position
        depth += (word == "(") - (word == ")")
        if depth < 0:
            return "a bracket closes that none has opened"
        if match.lastgroup == "word":
            problem = _word_problem(word)
            if problem:
                return problem
    return "a bracket is not closed" if depth else None


def _stray(rest: str) -> str:
    if rest[0] in "\"'":
        return "a text is not closed"
    if rest[0] == "/":
        return "a regular expression is not closed, or does not follow `=~` or `!~`"
    if rest[0] == "=":
        return "`=` stands where `==` or `=~` is meant"
    return f"`{rest[0]}` has no meaning here"


def _word_problem(word: str) -> str | None:
    if word in ("and", "or", "not"):
        sign = {"and": "&&", "or": "||", "not": "!"}[word]
        return f"`{word}` stands where `{sign}` is meant"
    root, _, rest = word.partition(".")
    if not rest and word not in _WORDS and word != "env":
        return f"`{word}` is a bare word: a text needs quotes"
    if root == "build" and rest not in _BUILD and "[" not in rest:
        from ci_doctor.lint.pipelines.pipeline_file import distance

        near = [
            name for name in sorted(_BUILD) if distance(rest, name, 2) <= min(2, len(rest) // 3)
        ]
        return f"there is no `{word}`, but `build.{near[0]}`" if near else None
    return None


def _github_problem(text: str) -> str | None:
    expressions = _EXPRESSION.findall(text) if "${{" in text else [text]
    if not expressions:
        return "`${{` is not closed"
    return next((problem for each in expressions for problem in _expression_problems(each)), None)


def _expression_problems(expression: str) -> Iterator[str]:
    bare = _GITHUB_TEXT.sub(" ", expression)
    if '"' in bare:
        yield "a text stands in double quotes, and only single ones are allowed"
    if "'" in bare:
        yield "a text is not closed"
    if bare.count("(") != bare.count(")"):
        yield "a bracket is not closed"
    if re.search(r"(?<![=!<>])=(?!=)", bare):
        yield "`=` stands where `==` is meant"
    word = re.search(r"(?<=[\s)])(and|or)(?=[\s(])", bare)
    if word:
        sign = "&&" if word.group() == "and" else "||"
        yield f"`{word.group()}` stands where `{sign}` is meant"


# A condition of GitHub with text around `${{ }}`: the whole is a text, and so true.

CONDITION_ALWAYS_TRUE: Final = LintRule(
    rule=Rule(
        id="pipeline/condition-always-true",
        severity=Severity.ERROR,
        meaning="A condition has text around `${{ }}`. GitHub then makes a text of all of it, and a text that is not empty is true.",
        remedy="Write the whole condition inside one `${{ }}`, or without it.",
    ),
    bad=(
        job_steps("- run: make\n  if: ${{ github.ref == 'a' }} && ${{ github.actor == 'b' }}\n"),
        job_steps("- run: make\n  if: ${{ github.ref }} == 'refs/heads/main'\n"),
        job_steps('- run: make\n  if: "!${{ inputs.skip }}"\n'),
        job_steps("- run: make\n  if: |\n    ${{ inputs.skip == 'no' }}\n"),
        job_steps("- run: make\n  if: always() && ${{ inputs.run }}\n"),
        workflow(
            "runs-on: ubuntu-24.04\nif: ${{ inputs.a }} || ${{ inputs.b }}\nsteps:\n- run: make\n"
        ),
    ),
    good=(
        job_steps("- run: make\n  if: ${{ github.ref == 'a' && github.actor == 'b' }}\n"),
        job_steps("- run: make\n  if: github.ref == 'refs/heads/main'\n"),
        job_steps("- run: make\n  if: |\n    inputs.skip == 'no'\n"),
        job_steps("- run: make\n  if: |-\n    ${{ inputs.skip == 'no' }}\n"),
        job_steps("- run: make\n  if: >-\n    ${{ inputs.skip == 'no'\n    && inputs.run }}\n"),
    ),
)


def condition_always_true(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Conditions of jobs and steps of which `${{ }}` is only a part."""
    if pipeline.kind not in (FileKind.WORKFLOW, FileKind.ACTION):
        return
    nodes = [*(job.node for job in pipeline.jobs), *(step.node for step in pipeline.steps)]
    for condition in conditions(nodes):
        text = condition.value
        if "${{" not in text:
            continue
        # The last newline of a block scalar is text around the expression, too.
        whole = text.startswith("${{") and text.find("}}") == len(text) - 2
        if not whole and text.find("}}") > 0:
            stripped = text.strip()
            block = stripped.startswith("${{") and stripped.find("}}") == len(stripped) - 2
            reason = (
                "the line break of the block is text around it"
                if block
                else "text stands around `${{ }}`"
            )
            remedy = (
                f"Write `if: {condition.style}-`."
                if block and condition.style in ("|", ">")
                else None
            )
            yield pipeline.violation(
                CONDITION_ALWAYS_TRUE,
                condition,
                f"the condition is always true: {reason}",
                remedy=remedy,
            )


# Uses of a matrix variable that the matrix does not have.

UNKNOWN_MATRIX_VALUE: Final = LintRule(
    rule=Rule(
        id="pipeline/unknown-matrix-value",
        severity=Severity.ERROR,
        meaning="A step uses a variable that its matrix does not have. Buildkite refuses the upload; GitHub puts nothing in its place, and the step tests something else than its name says.",
        remedy="Write the name of a variable of the matrix, or add the variable to it.",
    ),
    bad=(
        buildkite(
            "steps:\n  - command: pytest --gpu {{matrix.gpu}}\n    matrix:\n      setup:\n        device: [a100, h100]\n"
        ),
        buildkite("steps:\n  - command: pytest {{matrix.model}}\n    matrix: [opt, llama]\n"),
        buildkite("steps:\n  - command: pytest {{matrix}}\n    label: tests\n"),
        workflow(
            "runs-on: x\nstrategy:\n  matrix:\n    python: ['3.11', '3.12']\nsteps:\n- run: tox -e ${{ matrix.python-version }}\n"
        ),
        workflow("runs-on: ${{ matrix.os }}\nsteps:\n- run: make\n"),
    ),
    good=(
        buildkite(
            "steps:\n  - command: pytest --gpu {{matrix.gpu}}\n    matrix:\n      setup:\n        gpu: [a100, h100]\n"
        ),
        buildkite("steps:\n  - command: pytest {{matrix}}\n    matrix: [opt, llama]\n"),
        workflow(
            "runs-on: x\nstrategy:\n  matrix:\n    python: ['3.11', '3.12']\n    include:\n    - {python: '3.13', flags: --pre}\nsteps:\n- run: tox -e ${{ matrix.python }} ${{ matrix.flags }}\n"
        ),
        workflow(
            "runs-on: x\nstrategy:\n  matrix: ${{ fromJSON(needs.plan.outputs.matrix) }}\nsteps:\n- run: make ${{ matrix.any }}\n"
        ),
    ),
)

_BUILDKITE = re.compile(r"\{\{\s*matrix(?:\.([\w-]+))?\s*\}\}")
_GITHUB = re.compile(r"(?<![\w.-])matrix\.([A-Za-z_][\w-]*)")
_MATRIX_EXPRESSION = re.compile(r"\$\{\{((?:(?!\$\{\{).)*?)\}\}", re.DOTALL)
_STRINGS = re.compile(r"'[^']*'")


def unknown_matrix_value(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Names behind `matrix.` by step or job."""
    if pipeline.kind is FileKind.WORKFLOW:
        yield from _workflow(pipeline)
    elif pipeline.kind is FileKind.BUILDKITE:
        yield from _pipeline(pipeline)


def _pipeline(pipeline: PipelineFile) -> Iterator[Violation]:
    visited: set[int] = set()
    for step in pipeline.commands:
        if id(step.node) in visited:
            continue
        visited.add(id(step.node))
        matrix = step.node.get("matrix")
        known = _setup(matrix)
        if known is None:
            continue
        for node in _texts(step.node, "matrix"):
            for match in _BUILDKITE.finditer(node.value):
                name = match[1] or ""
                if name not in known:
                    yield _report(pipeline, node, step.name, match[0], known, matrix)
                    break


def _setup(matrix: Node | None) -> set[str] | None:
    """The names that a matrix of Buildkite has; the empty one for a plain list; None if that is not known."""
    if matrix is None:
        return set()
    if isinstance(matrix, MappingNode):
        setup = matrix.get("setup")
        if isinstance(setup, MappingNode):
            return set(setup.fields)
        return {""} if items_of(setup) else None
    return {""} if items_of(matrix) else None


def _texts(node: Node, left_out: str) -> Iterator[ScalarNode]:
    for name, field in node.fields.items() if isinstance(node, MappingNode) else ():
        if name != left_out:
            yield from (each for each in walk(field.value) if isinstance(each, ScalarNode))


def _workflow(pipeline: PipelineFile) -> Iterator[Violation]:
    for job in pipeline.jobs:
        strategy = mapping_of(job.node.get("strategy"))
        matrix = strategy.get("matrix") if strategy else None
        known = _names(matrix)
        if known is None:
            continue
        for node in _texts(job.node, "\0"):
            if matrix is not None and node.line >= matrix.line and _inside(node, matrix):
                continue
            expressions = _MATRIX_EXPRESSION.findall(node.value)
            used = {
                name
                for each in expressions
                for name in _GITHUB.findall(_STRINGS.sub("", each))
                if name.lower() not in known
            }
            for name in sorted(used)[:1]:
                where = f"the job '{job.id}'"
                yield _report(pipeline, node, where, f"matrix.{name}", known, matrix)


def _inside(node: ScalarNode, matrix: Node) -> bool:
    return any(each is node for each in walk(matrix))


def _names(matrix: Node | None) -> set[str] | None:
    """The names of a matrix of GitHub in small letters; None if an expression makes it."""
    if matrix is None:
        return set()
    if not isinstance(matrix, MappingNode):
        return None
    names = {name.lower() for name in matrix.fields if name not in ("include", "exclude")}
    include = matrix.get("include")
    if isinstance(include, ScalarNode):
        return None
    for each in items_of(include):
        entry = mapping_of(each)
        if entry is None:
            return None
        names |= {name.lower() for name in entry.fields}
    return names


def _report(
    pipeline: PipelineFile,
    node: ScalarNode,
    where: str,
    used: str,
    known: set[str],
    matrix: Node | None,
) -> Violation:
    names = ", ".join(f"`{each}`" for each in sorted(known) if each)
    if matrix is None:
        said = f"{where} uses `{used}` and has no matrix"
    elif known == {""}:
        said = f"{where} uses `{used}`, and its matrix is a plain list: `{{{{matrix}}}}`"
    else:
        said = f"{where} uses `{used}`, and its matrix has only {names or 'no variable'}"
    line = pipeline.lines[node.line - 1].lstrip(" -")
    return pipeline.violation(
        UNKNOWN_MATRIX_VALUE,
        node,
        said,
        severity=Severity.WARNING if line.startswith("name:") else None,
        remedy=f"Write one of {names}." if names else None,
        related=(matrix,) if matrix else (),
    )


# Variables of the job that the upload of the pipeline replaces before there is a job.

LOST_AT_UPLOAD: Final = LintRule(
    rule=Rule(
        id="pipeline/lost-at-upload",
        severity=Severity.ERROR,
        meaning="`buildkite-agent pipeline upload` replaces `$NAME` and `${NAME}` by its own variables. What the command or the step sets is not there yet, so nothing stands in its place: `exit $rc` becomes `exit`.",
        remedy="Write `$$NAME` or `\\$NAME`, which the job's shell reads, or put the commands into a script.",
    ),
    bad=(
        buildkite(
            "steps:\n  - command: |\n      pytest tests\n      rc=$?\n      docker stop server\n      exit $rc\n"
        ),
        buildkite(
            "steps:\n  - command: curl -f localhost:${PORT}/health\n    env:\n      PORT: 8000\n"
        ),
        buildkite(
            "steps:\n  - commands:\n      - 'for each in a b; do pytest tests/$each; done'\n"
        ),
        buildkite(
            "steps:\n  - command: pytest --shard $BUILDKITE_PARALLEL_JOB tests\n    parallelism: 4\n"
        ),
        buildkite('steps:\n  - command: "export OUT=out; pytest --junitxml=${OUT}/a.xml"\n'),
    ),
    good=(
        buildkite(
            "steps:\n  - command: |\n      pytest tests\n      rc=$?\n      docker stop server\n      exit $$rc\n"
        ),
        buildkite(
            "steps:\n  - command: curl -f localhost:\\${PORT}/health\n    env:\n      PORT: 8000\n"
        ),
        buildkite("env:\n  PORT: 8000\nsteps:\n  - command: curl -f localhost:${PORT}/health\n"),
        buildkite("steps:\n  - command: make TAG=$BUILDKITE_COMMIT IMAGE=${IMAGE:-base}\n"),
        buildkite(
            "steps:\n  - command: pytest --shard $$BUILDKITE_PARALLEL_JOB tests\n    parallelism: 4\n"
        ),
    ),
)

_USED = re.compile(
    r"(?:\$\$|\\\$)|\$(?:\{(?P<braced>[A-Za-z_]\w*)(?P<rest>[^}\n]*)\}|(?P<plain>[A-Za-z_]\w*))"
)
_SET = re.compile(
    r"(?:^|[\s;&|({`])(?:(?:export|local|readonly|declare|typeset)\s+(?:-\w+\s+)*)?(?P<name>[A-Za-z_]\w*)(?:\[[^\]\n]{0,99}\])?\+?=(?!=)"
    r"|\bfor\s+(?P<loop>[A-Za-z_]\w*)\s+in\b|\bread\s+(?:-\w+\s+)*(?P<read>[A-Za-z_]\w*)"
    r"|\b(?:mapfile|readarray)\s+(?:-\w+\s+)*(?P<array>[A-Za-z_]\w*)|\bgetopts\s+\S+\s+(?P<option>\w+)",
    re.MULTILINE,
)
_OF_THE_JOB: Final = frozenset({"BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT"})


def lost_at_upload(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
    """Names that a step's commands or `env` set, used without an escape in the commands."""
    if pipeline.kind is not FileKind.BUILDKITE or _without_interpolation(pipeline, context):
        return
    root = mapping_of(pipeline.root.get("env")) if pipeline.root is not None else None
    known_early = set(root.fields) if root is not None else set()
    visited: set[int] = set()
    for step in pipeline.commands:
        texts = command_texts(step)
        if not texts or id(texts[0]) in visited:
            continue
        visited.update(map(id, texts))
        env = mapping_of(step.node.get("env"))
        of_step = set(env.fields) if env is not None else set()
        of_step |= {
            str(each.value).partition("=")[0]
            for each in items_of(step.node.get("env"))
            if isinstance(each, ScalarNode)
        }
        whole = "\n".join(text.value for text in texts)
        of_command = {name for match in _SET.finditer(whole) for name in match.groups() if name}
        reported: set[str] = set()
        for text in texts:
            for match in _USED.finditer(text.value):
                name = match["braced"] or match["plain"]
                if (
                    not name
                    or name in reported
                    or name in known_early
                    or _is_prefix(text.value, match, name)
                ):
                    continue
                reason = _reason(name, of_command, of_step)
                if reason is None or (match["rest"] or "").startswith("?"):
                    continue
                reported.add(name)
                yield pipeline.violation(
                    LOST_AT_UPLOAD,
                    text,
                    f"`{match[0]}` is replaced when the pipeline is uploaded, and {reason}",
                    remedy=f"Write `${match[0]}`.",
                )


def _reason(name: str, of_command: set[str], of_step: set[str]) -> str | None:
    if name in _OF_THE_JOB:
        return "the step that uploads has no such value"
    if name in of_command:
        return f"the command of the step sets `{name}` only later"
    if name in of_step:
        return f"the `env` of the step sets `{name}` only later"
    return None


def _is_prefix(text: str, match: re.Match[str], name: str) -> bool:
    """`IMAGE=${IMAGE:-base}`: the name gets its value from the environment of the upload."""
    return text[: match.start()].rstrip("\"'").endswith(f"{name}=")


def _without_interpolation(pipeline: PipelineFile, context: PipelineContext) -> bool:
    return "--no-interpolation" in pipeline.text or any(
        "--no-interpolation" in text for text in context.others.values()
    )


RULES: Final = (
    (UNREADABLE_CONDITION, unreadable_condition),
    (CONDITION_ALWAYS_TRUE, condition_always_true),
    (UNKNOWN_MATRIX_VALUE, unknown_matrix_value),
    (LOST_AT_UPLOAD, lost_at_upload),
)
