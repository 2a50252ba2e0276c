# SPDX-License-Identifier: Apache-2.0
"""Pure. The commands in a text of a repository that start a server.

Each kind of file puts something around its commands: a key of YAML, a word of a Dockerfile, the tab of a
Makefile. What is left is a script, which is read as the tree that `lint` reads.
"""

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import Final

from msgspec import Struct

from ci_doctor.scaffold.servers import (
    KINDS,
    OWN_PROGRAM,
    ScriptPlace,
    ServerKind,
    SourceFile,
    TextKind,
    kind_at,
)
from ci_doctor.scaffold.words import (
    BETWEEN_WORDS,
    LIVE,
    OPAQUE,
    Settings,
    Values,
    assignments_in,
    is_opaque,
    marked,
    marked_text,
    unknown_variables,
    unmarked,
    without_marks,
    words_of,
)
from ci_doctor.syntax.shell_nodes import NodeKind, ShellNode
from ci_doctor.syntax.shell_tree import syntax_tree
from ci_doctor.syntax.yaml import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    compose,
    scalar_lines,
    scalars_of,
    text_of,
    walk,
    with_plain_breaks,
)

# What prepares the environment of a command and belongs to it: `uv run uvicorn …`.
RUNNERS: Final = frozenset(("uv", "poetry", "pdm", "pipenv", "hatch", "rye", "pixi"))
# What starts a command elsewhere: in an image, on another machine.
ELSEWHERE: Final = frozenset(
    ("docker", "podman", "nerdctl", "kubectl", "ssh", "srun", "sbatch", "apptainer", "singularity")
)
# What runs the command behind it, and is left out.
WRAPPERS: Final = frozenset(
    (
        *("nohup", "exec", "sudo", "env", "time", "timeout", "numactl", "nsys", "stdbuf", "setsid"),
        *("taskset", "nice", "ionice", "coverage", "xvfb-run", "tini", "dumb-init", "screen"),
        *("tmux", "if", "then", "do", "else", "{", "!", "@"),
    )
)
# Commands whose arguments name a server and start none.
SPEAKERS: Final = frozenset(
    (
        *("pip", "pip3", "apt", "apt-get", "yum", "dnf", "conda", "mamba", "brew", "npm", "echo"),
        *("printf", "grep", "pgrep", "pkill", "killall", "kill", "which", "command", "type", "cp"),
        *("mv", "rm", "ln", "chmod", "chown", "mkdir", "cat", "tee", "sed", "awk", "curl", "wget"),
        *("git", "cargo", "make", "cmake", "test", "[", "[[", "man", "ls", "cd", "export", "alias"),
        *("set", "unset", "COPY", "ADD"),
    )
)
VERBS: Final = frozenset(("install", "add", "uninstall", "show", "remove", "list", "build"))


class ServerCommand(Struct, frozen=True, kw_only=True):
    """`words` from the program on, with what runs it (`uv run`) before them; a `$` of the shell is marked.

    kind: the row of the table. arguments: the place of the first word behind those that name the server.
    env: the assignments before the command. directory: where `cd` or a Dockerfile says that it runs,
    relative to what is looked at; empty if nothing says it. in_container: another machine or an image
    runs it. is_template: another program fills in a part of it before a shell sees it.
    """

    kind: ServerKind
    file: str
    line: int
    place: ScriptPlace
    words: tuple[str, ...]
    arguments: int
    env: dict[str, str] = {}
    directory: str = ""
    in_container: bool = False
    is_template: bool = False


# The entry points of these images, from their own Dockerfiles.
_IMAGES: Final = (
    (re.compile(r"(?:^|/)vllm-openai(?:[:@]|$)"), ("vllm", "serve")),
    (re.compile(r"(?:^|/)text-generation-inference(?:[:@]|$)"), ("text-generation-launcher",)),
    (re.compile(r"(?:^|/)text-embeddings-inference(?:[:@]|$)"), ("text-embeddings-router",)),
    (re.compile(r"(?:^|/)llama\.cpp:server"), ("llama-server",)),
)
# Options of `docker run` without a word of their own behind them.
_FLAGS: Final = re.compile(
    r"-[ditP]+|--(?:detach|interactive|tty|rm|init|privileged|publish-all|read-only)"
)
_MOST_PER_FILE: Final = 200
_DEEPEST: Final = 3
_LONGEST: Final = 20_000  # characters of one command; a longer one is data
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_PYTHON: Final = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")
_SCRIPT_OPTION: Final = re.compile(r"-[a-z]*c")
_TEMPLATE: Final = re.compile(r"\{\{|\{%|<[A-Za-z][\w -]*>")
_PLACEHOLDER: Final = re.compile(r"<[\w \|/-]+>|\.\.\.|\bYOUR_|\[OPTIONS\]")
_HELP: Final = frozenset({"--help", "-h", "--version"})
_LITERALS: Final = tuple(
    sorted({start[0] if start[0] != "-m" else start[1] for kind in KINDS for start in kind.starts})
)
_ANY_SERVER: Final = re.compile(
    "|".join(map(re.escape, _LITERALS))
    + "|python|text-(?:generation|embeddings)-inference|llama.cpp:",
    re.IGNORECASE,
)
# A line of options belongs to the command above it, also where its author forgot the backslash.
_OPTIONS_BELOW: Final = re.compile(r"(?<!\\)\n(?=[ \t]*(?:--\w|['\"]?\{))")
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
_ENVIRONMENT_ITEM: Final = re.compile(r"([A-Z_][A-Z0-9_]*)=(.*)", re.DOTALL)
_DOCKER: Final = re.compile(r"(?im)^(?:CMD|ENTRYPOINT|RUN)[ \t]+((?:.*\\\n)*.*)")
_DOCKER_SETS: Final = re.compile(
    r"(?im)^(?:ENV|ARG)[ \t]+([A-Za-z_]\w*)(?:=|[ \t]+)(\"[^\"\n]*\"|\S*)"
)
_RECIPE: Final = re.compile(r"(?m)^[ \t]+[@+-]*((?:.*\\\n)*.*)")
_MAKE_SETS: Final = re.compile(
    r"(?m)^(?:export +)?([A-Za-z_]\w*)[ \t]*(?:\?=|::?=|=)[ \t]*([^#\n]*)"
)
_MAKE_USE: Final = re.compile(r"\$[({](?P<name>[A-Za-z_]\w*)[)}]")
_FENCED: Final = re.compile(r"(?ms)^[ \t]*(?:```|~~~)[^\n]*\n(.*?)^[ \t]*(?:```|~~~)")
_INDENTED: Final = re.compile(r"(?m)^(?:(?: {3,}|\t)\S.*\n?)+")
_ARITHMETIC: Final = re.compile(r"(?s)\$\(\(.*?\)\)")
_COMMENT: Final = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_PROMPT: Final = re.compile(r"(?m)^([ \t]*)[$>] ")


class _Script(Struct, frozen=True, kw_only=True):
    """Shell in a file: the line of the file for each line of `text`; where it runs, if that is written."""

    text: str
    lines: Sequence[int]
    directory: str = ""
    in_container: bool = False

    def line_of(self, offset: int) -> int:
        """The line of the file in which the character at `offset` stands."""
        return self.lines[min(self.text.count("\n", 0, offset), len(self.lines) - 1)]


# A line of the file, and the name and the value that it sets.
_Setting = tuple[int, str, str]


def server_commands(source: SourceFile) -> tuple[ServerCommand, ...]:
    """The commands of `source` that start a server, in their order; the first two hundred."""
    # Most files name none.
    if _ANY_SERVER.search(source.text) is None:
        return ()
    scripts, settings = _scripts(source)
    scripts = [script for script in scripts if _ANY_SERVER.search(script.text)]
    for script in scripts:
        settings += _settings_in(script)
    known = Settings(sorted(settings, key=lambda each: each[0]))
    commands = chain.from_iterable(_commands(script, source, known, 0) for script in scripts)
    # A list of words is read as a whole and word by word.
    return tuple(sorted(islice(commands, _MOST_PER_FILE), key=lambda each: each.line))


def _scripts(source: SourceFile) -> tuple[list[_Script], list[_Setting]]:
    """The shell in a file, and what the file sets beside it."""
    text = source.text
    match source.kind:
        case TextKind.YAML:
            return _of_yaml(text)
        case TextKind.DOCKERFILE:
            settings = [_setting(text, match) for match in _DOCKER_SETS.finditer(text)]
            return [_part(text, match) for match in _DOCKER.finditer(text)], settings
        case TextKind.MAKEFILE:
            text = _MAKE_USE.sub(r"${\g<name>}", text).replace("$$", "$")
            settings = [_setting(text, match) for match in _MAKE_SETS.finditer(text)]
            return [_part(text, match) for match in _RECIPE.finditer(text)], settings
        case TextKind.MARKDOWN:
            fenced = list(_FENCED.finditer(text))
            parts = [_part(text, match) for match in fenced or _INDENTED.finditer(text)]
            return [_without_prompts(part) for part in parts], []
        case _:
            return [_Script(text=text, lines=range(1, text.count("\n") + 2))], []


def _part(text: str, match: re.Match[str]) -> _Script:
    """The first group of a match, or all of it, as a script; a list of words as a line."""
    group = 1 if match.re.groups else 0
    line = text.count("\n", 0, match.start(group)) + 1
    part = match[group]
    if part.startswith("["):
        part = _line_of_list(part)
    return _Script(text=part, lines=range(line, line + part.count("\n") + 1))


def _setting(text: str, match: re.Match[str]) -> _Setting:
    value = match[2].strip().strip("\"'")
    return text.count("\n", 0, match.start()) + 1, match[1], marked_text(value)


def _without_prompts(script: _Script) -> _Script:
    # What a page leaves to its reader is no command.
    lines = [
        "" if _PLACEHOLDER.search(line) else line
        for line in _PROMPT.sub(r"\1", script.text).split("\n")
    ]
    return _Script(text=_joined("\n".join(lines)), lines=script.lines)


def _joined(text: str) -> str:
    return _OPTIONS_BELOW.sub(" \\\n", text)


def _line_of_list(text: str) -> str:
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        return text
    # An escape of JSON may write a mark.
    return _line_of_words([without_marks(str(word)) for word in words])


def _line_of_words(words: Sequence[str]) -> str:
    """Words as a line of shell; a variable in one stays alive, because Kubernetes expands it too."""
    quoted = []
    for word in words:
        has_variable = "$" in word and "'" not in word and '"' not in word
        quoted.append(f'"{word}"' if has_variable else shlex.quote(word))
    return " ".join(quoted)


def _of_yaml(text: str) -> tuple[list[_Script], list[_Setting]]:
    scripts: list[_Script] = []
    settings: list[_Setting] = []
    text = with_plain_breaks(text)
    directories: dict[int, str] = {}
    for document in compose(text).documents:
        for node in walk(document):
            if isinstance(node, ScalarNode):
                scripts += _of_scalar(node, text, directories.get(id(node), ""))
            elif isinstance(node, SequenceNode):
                settings += _environment_items(node)
            else:
                settings += _environment(node)
                scripts += _of_words(node)
                directory = text_of(node.get("working-directory"))
                if directory is not None:
                    directories[id(node.get("run"))] = directory
    return scripts, settings


def _of_scalar(node: ScalarNode, text: str, directory: str) -> list[_Script]:
    if _ANY_SERVER.search(node.value) is None:
        return []
    # A pipeline of Buildkite and a compose file write `$$` for a `$` of the shell.
    script = _joined(node.value.replace("$$", "$"))
    return [_Script(text=script, lines=scalar_lines(node, text), directory=directory)]


def _of_words(node: MappingNode) -> list[_Script]:
    """The command of a mapping whose words are the items of a list, with its arguments."""
    command = node.get("command", "entrypoint") or node.get("args")
    words = [*_words_in(command), *_words_in(node.get("args") if node.get("command") else None)]
    if len(words) < 2 or command is None:
        return []
    line = command.line if isinstance(command, ScalarNode) else max(1, command.line - 1)
    return [_Script(text=_line_of_words(words), lines=[line])]


def _words_in(node: Node | None) -> list[str]:
    scalars = scalars_of(node) if isinstance(node, SequenceNode) else []
    return [scalar.value.replace("$$", "$") for scalar in scalars]


def _environment(node: MappingNode) -> Iterator[_Setting]:
    for name, field in node.fields.items():
        value = text_of(field.value)
        if value is not None and _VARIABLE.fullmatch(name):
            yield field.key.line, name, marked_text(value.replace("$$", "$"))


def _environment_items(node: SequenceNode) -> Iterator[_Setting]:
    for item in scalars_of(node):
        match = _ENVIRONMENT_ITEM.fullmatch(item.value)
        if match is not None:
            yield item.line, match[1], marked_text(match[2].replace("$$", "$"))


def _settings_in(script: _Script) -> Iterator[_Setting]:
    """What the statements of a script set plainly."""
    for node in syntax_tree(script.text).program.descendants():
        if node.kind not in (NodeKind.ASSIGNMENT, NodeKind.DECLARATION):
            continue
        for span in node.words:
            name, equals, written = _written(script.text, node, span).partition("=")
            added = name.endswith("+")
            name = name.removesuffix("+")
            if not equals or not name.isidentifier():
                continue
            is_array = written.startswith("(")
            value = _array(written) if is_array else marked(written)
            if added:
                value = f"{LIVE}{{{name}}}{BETWEEN_WORDS if is_array else ''}{value}"
            yield script.line_of(span[0]), name, value


def _array(written: str) -> str:
    """The words of `(…)` behind a name, apart from each other."""
    text = " ".join(_COMMENT.sub("", written[1:-1]).replace("\\\n", " ").split("\n"))
    made: list[str] = []
    for node in syntax_tree(f": {text}").program.children:
        made += [marked(_written(f": {text}", node, span)) for span in node.words[1:]]
    return BETWEEN_WORDS.join(made)


def _written(text: str, node: ShellNode, span: tuple[int, int]) -> str:
    """A part of a script, in which what other commands print is not known."""
    at, end = span
    parts = []
    for child in node.children:
        if child.kind is NodeKind.SUBSTITUTION and at <= child.start and child.end <= end:
            parts += [text[at : child.start], OPAQUE]
            at = child.end
    parts.append(text[at:end])
    return _ARITHMETIC.sub(OPAQUE, "".join(parts))


def _commands(
    script: _Script, source: SourceFile, settings: Settings, depth: int
) -> Iterator[ServerCommand]:
    """The servers that a script starts, also by the text of a `bash -c`."""
    directories: dict[int, str] = {}
    for node in syntax_tree(script.text).program.descendants():
        if node.kind is NodeKind.HERE_TEXT and depth < _DEEPEST:
            yield from _commands(_inner(script, node), source, settings, depth + 1)
        if node.kind is not NodeKind.COMMAND or not node.words or node.end - node.start > _LONGEST:
            continue
        text = script.text[node.start : node.end]
        if node.word != "cd" and not _may_start_server(node, text):
            continue
        line = script.line_of(node.start)
        values = settings.at(line)
        words = [
            word
            for span in node.words
            for word in words_of(_written(script.text, node, span), values)
        ]
        if words[:1] == ["cd"] and len(words) == 2:
            _enter(node, words[1], directories)
            continue
        inner = _script_in(words)
        if inner is not None and depth < _DEEPEST:
            in_container = script.in_container or _is_elsewhere(words)
            inside = _Script(text=unmarked(inner), lines=[line], in_container=in_container)
            yield from _commands(inside, source, settings, depth + 1)
            continue
        started = _server_in(words, source)
        if started is None:
            continue
        before = _written(script.text, node, (node.start, node.words[0][0]))
        yield ServerCommand(
            kind=started.kind,
            file=source.path,
            line=line,
            place=source.place,
            words=started.words,
            arguments=started.arguments,
            env=_env(before, started.before, values),
            directory=_directory(node, directories) or script.directory,
            in_container=script.in_container or _is_elsewhere(started.before),
            is_template=any(_TEMPLATE.search(word) for word in started.words),
        )


def _may_start_server(node: ShellNode, text: str) -> bool:
    """Whether a statement names a server, or a variable that may hold its command."""
    is_indirect = "$" in node.word or node.word == "eval" or " -c " in text
    return is_indirect or _ANY_SERVER.search(text) is not None


def _inner(script: _Script, node: ShellNode) -> _Script:
    """The text of a here-document, which another shell may read."""
    first = script.text.count("\n", 0, node.start)
    lines = list(script.lines)[first:] or [script.line_of(node.start)]
    return _Script(text=script.text[node.start : node.end], lines=lines)


def _script_in(words: Sequence[str]) -> str | None:
    """The text that a shell gets as an argument: `bash -c TEXT`, `eval TEXT`."""
    if words[:1] == ["eval"]:
        return " ".join(words[1:])
    for option, text in pairwise(words):
        if _SCRIPT_OPTION.fullmatch(option) and " " in text:
            return text
    return None


def _enter(node: ShellNode, directory: str, directories: dict[int, str]) -> None:
    """Note where commands behind a `cd` run: up to the end of its function or its parentheses."""
    if is_opaque([directory]) or unknown_variables([directory]) or directory == "-":
        return
    above = _directory(node, directories)
    scope = next((each for each in node.ancestors() if each.kind in _SCOPES), None)
    directories[id(scope)] = posixpath.join(above, directory)


_SCOPES: Final = (NodeKind.SUBSHELL, NodeKind.SUBSTITUTION, NodeKind.FUNCTION, NodeKind.PROGRAM)


def _directory(node: ShellNode, directories: Mapping[int, str]) -> str:
    for each in node.ancestors():
        if id(each) in directories:
            return directories[id(each)]
    return ""


class _FoundServer(Struct, frozen=True, kw_only=True):
    """The words before a server, its own words, and the place of its arguments among these."""

    kind: ServerKind
    before: tuple[str, ...]
    words: tuple[str, ...]
    arguments: int


def _server_in(words: list[str], source: SourceFile) -> _FoundServer | None:
    for at, word in enumerate(words):
        if word.rpartition("/")[2] in SPEAKERS or word in VERBS:
            return None
        named = _named_at(words, at)
        if named is None:
            continue
        kind, end = named
        first = _with_runner(words, at)
        is_asked = bool(_HELP.intersection(words[end:]))
        if is_asked or not _may_start(words[:first], source.kind):
            return None
        return _FoundServer(
            kind=kind,
            before=tuple(words[:first]),
            words=tuple(words[first:]),
            arguments=end - first,
        )
    return _in_image(words)


def _in_image(words: list[str]) -> _FoundServer | None:
    """The server of a `docker run`; None for another command, another image or another entry point."""
    at = words.index("run") + 1 if "run" in words else 0
    if not {"docker", "podman", "nerdctl"}.intersection(words[:at]):
        return None
    variables: list[str] = []
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        if name == "--entrypoint":
            return None
        at += 1
        if not equals and not _FLAGS.fullmatch(name):
            value = "".join(words[at : at + 1])
            at += 1
        # `--env NAME` hands on a variable of the machine, whose value nobody knows here.
        if name in ("-e", "--env") and "=" in value:
            variables.append(value)
    image = "".join(words[at : at + 1])
    for pattern, program in _IMAGES:
        named = kind_at(list(program), 0)
        if named is not None and pattern.search(image):
            # The program first, so that it is known to run elsewhere.
            return _FoundServer(
                kind=named[0],
                before=(words[0], "docker", *variables),
                words=(*program, *words[at + 1 :]),
                arguments=named[1],
            )
    return None


def _named_at(words: list[str], at: int) -> tuple[ServerKind, int] | None:
    """The kind of server that is named at a place, and the place behind its name."""
    place = at
    if _PYTHON.fullmatch(words[at]):
        place = at + 1
        while place < len(words) and words[place].startswith("-") and words[place] != "-m":
            place += 1
    elif words[at] == "-m":
        # Of `torchrun -m` and the like nothing is known.
        return None
    named = kind_at(words, place)
    if named is not None or place == at or place + 1 > len(words):
        return named
    if words[place] == "-m":
        # A module of the repository, perhaps.
        return (OWN_PROGRAM, place + 2) if place + 1 < len(words) else None
    return (OWN_PROGRAM, place + 1) if words[place].endswith(".py") else None


def _may_start(before: list[str], kind: TextKind) -> bool:
    """Whether the words before a server's name run it, and are not a sentence about it."""
    first = next((word for word in before if not _ASSIGNMENT.match(word)), None)
    if first is None:
        return True
    program = first.rpartition("/")[2]
    # A script may have functions of its own: `launch vllm serve …`.
    return (
        program in WRAPPERS or program in RUNNERS or program in ELSEWHERE or kind is TextKind.SHELL
    )


def _with_runner(words: list[str], at: int) -> int:
    """The place of `uv run …` before the server's own words, if that is what starts it."""
    for place in range(at):
        if words[place] in RUNNERS and "run" in words[place:at]:
            return place
    return at


def _env(written: str, before: Sequence[str], values: Values) -> dict[str, str]:
    """The assignments before a command; one that hands on a variable of the job sets nothing."""
    pairs = [(name, "".join(words_of(value, values))) for name, value in assignments_in(written)]
    pairs += [
        (word.partition("=")[0], word.partition("=")[2])
        for word in before
        if _ASSIGNMENT.match(word)
    ]
    return {name: value for name, value in pairs if unknown_variables([value]) != (name,)}


def _is_elsewhere(before: Sequence[str]) -> bool:
    return any(word.rpartition("/")[2] in ELSEWHERE for word in before)
