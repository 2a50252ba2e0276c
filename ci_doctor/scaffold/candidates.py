# SPDX-License-Identifier: Apache-2.0
"""Pure. From a command in a file to a service without secrets."""

import json
import posixpath
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.scaffold.commands import ServerCommand
from ci_doctor.scaffold.servers import PYTHON_PROGRAM, Api, ServerKind
from ci_doctor.scaffold.words import is_opaque, unknown_variables, without_variables
from ci_doctor.system.secrets.patterns import is_secret_name, name_pattern
from ci_doctor.system.secrets.redaction import Redactor

PORT = "{port}"


def option_value(words: Sequence[str], names: Sequence[str]) -> str | None:
    """The value of the first of these options: the word behind it, or what follows its `=`."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name not in names:
            continue
        if equals:
            return value
        if at + 1 < len(words):
            return words[at + 1]
    return None


def with_value(words: Sequence[str], names: Sequence[str], value: str) -> list[str] | None:
    """`words` with another value of these options; None if none of them is there."""
    made = list(words)
    places = [at for at, word in enumerate(made) if word.partition("=")[0] in names]
    for at in reversed(places):
        name, equals, _ = made[at].partition("=")
        if equals:
            made[at] = f"{name}={value}"
        else:
            made[at + 1 : at + 2] = [value]
    return made if places else None


def without_option(words: Sequence[str], name: str, values: int) -> list[str]:
    """`words` without an option and the `values` words behind it."""
    made = [word for word in words if not word.startswith(f"{name}=")]
    while name in made:
        at = made.index(name)
        del made[at : at + 1 + values]
    return made


def has_option(words: Sequence[str], *names: str) -> bool:
    """Whether one of these options is there."""
    return any(word.partition("=")[0] in names for word in words)


class ServerCandidate(Struct, frozen=True, kw_only=True):
    """A command made ready to be started with a free port.

    words: with `{port}` where the port was; a `$` of the shell is still marked. ready: its probe.
    paths: where it answers an API, if not at the usual place. model: as requests name it; None if nobody knows. cwd: relative to the directory of the
    configuration; empty for that one. unknown: variables that the job must bring. connector: what keeps its keys and
    values elsewhere, in a word. notes: what was changed in the command, and what else a reader must
    know. is_app: an application of the repository. short_prompts: its context may be small. role: it is one part of a server that several make.
    count: how often the repository starts it.
    """

    kind: str
    command: ServerCommand
    words: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str = ""
    ready: str = "/health"
    apis: tuple[Api, ...] = ()
    paths: dict[Api, str] = {}
    model: str | None = None
    is_app: bool = False
    unknown: tuple[str, ...] = ()
    connector: str | None = None
    role: str | None = None
    is_engine: bool = False
    short_prompts: bool = False
    notes: tuple[str, ...] = ()
    count: int = 1

    @property
    def origin(self) -> str:
        """`file:line` of the command."""
        return f"{self.command.file}:{self.command.line}"


_SERVED: Final = ("--served-model-name", "--model-name", "--alias", "--model_alias")
# A model may also come from a file or from the environment.
_OTHER_MODEL: Final = ("--config", "--config_file", "--hf_model_repo_id", "--engine")
_LENGTH: Final = (
    "--max-model-len",
    "--context-length",
    "--session-len",
    "-c",
    "--ctx-size",
    "--n_ctx",
)
_FEW_TOKENS: Final = 1024
_POOLING: Final = ("--is-embedding", "--embedding", "--embeddings")
_TASKS: Final = ("--task", "--runner", "--convert")
_EMBEDS: Final = re.compile(r"embed|pooling")
# A base model has no template of a chat, and refuses one.
_CHATS: Final = re.compile(
    r"instruct|chat|[-_]it\b|qwen-?3|deepseek-(?:v|r)|gpt-oss", re.IGNORECASE
)
_BUILT_IN: Final = {
    "--kv-offloading-size": "KV offloading",
    "--enable-hierarchical-cache": "HiCache",
    "--enable-lmcache": "LMCache",
}
# Options that make a connector, and how many words each takes.
_CONNECTING: Final = {
    "--kv-transfer-config": 1,
    "--kv-offloading-size": 1,
    "--kv-offloading-backend": 1,
    "--enable-hierarchical-cache": 0,
    "--enable-lmcache": 0,
}
_ONE_OF_SEVERAL: Final = (
    "--disaggregation-mode",
    "--disagg-cluster-storage",
    "--node-rank",
    "--nnodes",
    "--headless",
    "--dist-init-addr",
    "--master-addr",
    "--data-parallel-address",
    "--data-parallel-start-rank",
    "--data-parallel-rank",
)


def engine_candidate(command: ServerCommand) -> ServerCandidate | None:
    """The service of a command that starts a server of models; None if it cannot run as it stands."""
    kind = command.kind
    arguments = list(command.words[command.arguments :])
    model = _model(kind, arguments, command.env)
    if model is None and kind.is_engine and not has_option(arguments, *_OTHER_MODEL):
        return None
    placed: list[str] | None
    if kind.positional_port is not None:
        placed = _at_position(arguments, kind.positional_port)
    else:
        placed = with_port(kind, arguments)
    if placed is None:
        return None
    words = (*command.words[: command.arguments], *with_known_host(placed))
    # Its value stands where no reader of lines looks.
    if arguments[-1:] == ["--kv-transfer-config"] or is_opaque((*words, *command.env.values())):
        return None
    named = option_value(arguments, _SERVED) or model
    is_known = named is not None and not unknown_variables([named])
    return ServerCandidate(
        kind=kind.name,
        command=command,
        words=words,
        env=command.env,
        cwd=command.directory,
        ready=kind.ready,
        apis=_apis(kind, arguments, model or ""),
        model=named if is_known else None,
        unknown=unknown_variables([*words, *command.env.values()]),
        connector=connector_of(arguments),
        role=_role(arguments),
        is_engine=kind.is_engine,
        short_prompts=_is_short(arguments),
    )


def why_left_out(command: ServerCommand) -> str:
    """Why a command is no candidate, in a clause."""
    arguments = command.words[command.arguments :]
    if command.is_template:
        return "a template fills in a part of it"
    if is_opaque((*with_known_host(list(arguments)), *command.env.values())):
        return "arguments of the script or the output of a command are a part of it"
    if command.kind.is_app:
        return "the program that it names is not in the repository"
    if command.kind.is_engine and _model(command.kind, arguments, command.env) is None:
        return "it names no model"
    if arguments[-1:] == ("--kv-transfer-config",) or command.kind.positional_port is not None:
        return "a value is missing"
    return "it holds a secret"


def with_port(kind: ServerKind, arguments: Sequence[str]) -> list[str]:
    """The arguments with the free port in place of their own; added if they have none."""
    placed = with_value(arguments, kind.port_options, PORT)
    return placed or [*arguments, kind.port_options[0], PORT]


def connector_of(arguments: Sequence[str]) -> str | None:
    """What keeps keys and values beyond the server's own cache; None for a plain server."""
    for option, name in _BUILT_IN.items():
        if has_option(arguments, option):
            return name
    given = _transfer(arguments)
    return None if given is None else str(given.get("kv_connector") or "a KV connector")


def without_connector(candidate: ServerCandidate) -> ServerCandidate:
    """The same server without its connector."""
    words: list[str] = list(candidate.words)
    for option, values in _CONNECTING.items():
        words = without_option(words, option, values)
    env = {name: value for name, value in candidate.env.items() if not name.startswith("LMCACHE_")}
    return replace(candidate, words=tuple(words), env=env, connector=None)


def _model(kind: ServerKind, arguments: Sequence[str], env: Mapping[str, str]) -> str | None:
    if kind.takes_model and arguments and not arguments[0].startswith("-"):
        return arguments[0]
    return option_value(arguments, kind.model_options) or env.get("MODEL_ID")


def _at_position(arguments: list[str], position: int) -> list[str] | None:
    """The arguments with the free port as the word at `position`, options not counted."""
    plain = [at for at, word in enumerate(arguments) if not word.startswith("-")]
    if len(plain) <= position:
        return None
    arguments[plain[position]] = PORT
    return arguments


def with_known_host(arguments: list[str]) -> list[str]:
    """A host that only the script knows becomes the loopback address, where the probe asks."""
    host = option_value(arguments, ("--host",))
    if host is None or not (is_opaque([host]) or unknown_variables([host])):
        return arguments
    return with_value(arguments, ("--host",), "127.0.0.1") or arguments


def _apis(kind: ServerKind, arguments: Sequence[str], model: str) -> tuple[Api, ...]:
    task = option_value(arguments, _TASKS) or ""
    if has_option(arguments, *_POOLING) or _EMBEDS.search(task):
        return (Api.EMBEDDINGS,)
    chats = has_option(arguments, "--chat-template") or _CHATS.search(model) is not None
    return tuple(api for api in kind.apis if chats or api is not Api.CHAT)


def _role(arguments: Sequence[str]) -> str | None:
    """What the command is a part of, if it does not answer by itself."""
    for option in _ONE_OF_SEVERAL:
        if has_option(arguments, option):
            return option
    role = (_transfer(arguments) or {}).get("kv_role")
    return role if role in {"kv_producer", "kv_consumer"} else None


def _transfer(arguments: Sequence[str]) -> dict[str, object] | None:
    written = option_value(arguments, ("--kv-transfer-config",))
    if written is None:
        return None
    try:
        value = json.loads(written)
    except ValueError:
        # With a variable in it: the names are still legible.
        pairs = re.findall(r'"(kv_connector|kv_role)"\s*:\s*"(\w+)"', written)
        return dict(pairs)
    return value if isinstance(value, dict) else {}


def _is_short(arguments: Sequence[str]) -> bool:
    length = option_value(arguments, _LENGTH)
    # Python refuses to read thousands of digits, and calls `²` one.
    if length is None or not re.fullmatch("[0-9]{1,9}", length):
        return False
    return 0 < int(length) < _FEW_TOKENS


# Where a program of the repository answers an API that many servers have.
_ENDINGS: Final = {
    "/chat/completions": Api.CHAT,
    "/completions": Api.COMPLETIONS,
    "/embeddings": Api.EMBEDDINGS,
}
_PATH: Final = re.compile(r"[\"'](/[\w./-]+)[\"']")
# What a client of such an API does not have.
_SERVES: Final = re.compile(
    r"FastAPI\(|Flask\(|HTTPServer|uvicorn\.run|web\.run_app|Starlette\(|Sanic\(|Quart\("
)
_NAMED_MODEL: Final = re.compile(
    r"(?m)^(?:DEFAULT_|SERVED_)?MODEL(?:_NAME|_ID)?\s*(?::\s*\w+\s*)?=\s*[\"']([^\"'\n]+)[\"']"
)


def app_candidate(
    command: ServerCommand, files: Collection[str], text_of: Callable[[str], str | None]
) -> ServerCandidate | None:
    """The service of a command that starts a program of the repository.

    files: the names of its files; text_of: the text of one. None if the program is not there, or if it
    is run by `python` and its source makes no server or names no path of a known API.
    """
    arguments = with_known_host(list(command.words[command.arguments :]))
    home = _home(command, arguments, files)
    if home is None:
        return None
    file, directory = home
    notes: tuple[str, ...] = ()
    if "--reload" in arguments:
        arguments.remove("--reload")
        notes = ("without --reload, which starts it again when a file changes",)
    source = (text_of(file) or "") if command.kind.name == PYTHON_PROGRAM else ""
    written = _PATH.findall(source)
    paths: dict[Api, str] = {}
    for path in written:
        api = next((api for end, api in _ENDINGS.items() if path.rstrip("/").endswith(end)), None)
        if api is not None:
            paths.setdefault(api, path)
    if command.kind.name != PYTHON_PROGRAM:
        # An application of which nothing is known but that a web server runs it.
        paths = {Api.ROUTES: "/"}
    elif (
        not paths
        or _SERVES.search(source) is None
        or ("--port" not in source and not has_option(arguments, *command.kind.port_options))
    ):
        return None
    words = (*command.words[: command.arguments], *with_port(command.kind, arguments))
    if is_opaque((*words, *command.env.values())):
        return None
    named = _NAMED_MODEL.search(source)
    return ServerCandidate(
        kind=command.kind.name,
        command=command,
        words=words,
        env=command.env,
        cwd=directory,
        ready="/health" if "/health" in written else "tcp://127.0.0.1:{port}",
        apis=tuple(paths),
        paths=paths,
        model=named[1] if named is not None else None,
        is_app=True,
        unknown=unknown_variables([*words, *command.env.values()]),
        short_prompts=True,
        notes=notes,
    )


def _home(
    command: ServerCommand, arguments: Sequence[str], files: Collection[str]
) -> tuple[str, str] | None:
    """The file of the application that a command names, and the directory in which it must run."""
    target = command.words[command.arguments - 1]
    if command.kind.name != PYTHON_PROGRAM:
        # `package.module:app`, and no HOST:PORT.
        named = (word.partition(":") for word in arguments)
        modules = (module for module, colon, _ in named if colon and not module.startswith("-"))
        target = next((each for each in modules if each.replace(".", "").isidentifier()), "")
    path = target.replace(".", "/")
    names = (
        [target]
        if target.endswith(".py")
        else [f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py"]
    )
    own = command.file.rpartition("/")[0]
    for name in names:
        for directory in dict.fromkeys((command.directory.strip("./"), own, "")):
            file = posixpath.normpath(posixpath.join(directory, name))
            if file in files:
                return file, directory
    return None


_SECRET_NAME: Final = re.compile(name_pattern(), re.IGNORECASE)
# A server that wants a key refuses requests without one, and the requests hold none.
_KEYS: Final = frozenset(("--api-key", "--api-keys", "--admin-api-key"))


def without_secrets(server: ServerCandidate) -> ServerCandidate | None:
    """The server without keys and without variables named like secrets; None if its command holds another."""
    words, dropped = _without_keys(server.words)
    notes = [*server.notes, *(f"without {name}, as the requests carry no key" for name in dropped)]
    env = {}
    for name, value in server.env.items():
        if _is_secret(name):
            notes.append(f"{name} comes from the environment of the job, not from this file")
        else:
            env[name] = value
    if _holds_secret(words) or _has_secret_value(env):
        return None
    return replace(server, words=tuple(words), env=env, notes=tuple(notes))


def _without_keys(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words without options of keys and all their values (vLLM takes several), and those options."""
    kept: list[str] = []
    dropped: dict[str, None] = {}
    in_keys = False
    for word in words:
        name, equals, _ = word.partition("=")
        if name.lower().replace("_", "-") in _KEYS:
            dropped[name] = None
            in_keys = not equals
        elif word.startswith("-") or not in_keys:
            in_keys = False
            kept.append(word)
    return kept, list(dropped)


def _holds_secret(words: Sequence[str]) -> bool:
    # A value that is only a variable's name is no secret; what stands beside it may be one.
    written = tuple(_text_of(word) for word in words)
    if Redactor(()).argv(written) != written:
        return True
    for at, word in enumerate(written):
        name, equals, value = word.partition("=")
        if not name.startswith("-") or not _is_secret(name.lstrip("-")):
            continue
        following = "".join(written[at + 1 : at + 2])
        given = value if equals else following
        if given and not given.startswith("-"):
            return True
    return False


def _has_secret_value(env: dict[str, str]) -> bool:
    written = {name: without_variables(value) for name, value in env.items()}
    return bool(Redactor(()).value(written) != written)


def _text_of(word: str) -> str:
    """What a word says by itself; a word of variables alone becomes one that hides nothing."""
    text = without_variables(word)
    return text if text or not word else "--variable"


def _is_secret(name: str) -> bool:
    # The options of a command are variables in lower case: `--db-pass` is DB_PASS.
    return is_secret_name(name.upper().replace("-", "_"), _SECRET_NAME) or is_secret_name(
        name, _SECRET_NAME
    )
