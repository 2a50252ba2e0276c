# SPDX-License-Identifier: Apache-2.0
"""Pure. A server's command without secrets: a file of the repository is no place for them."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from ci_doctor.scaffold.reading.variables import without_variables
from ci_doctor.scaffold.servers.candidate import ServerCandidate
from ci_doctor.system.secrets.patterns import is_secret_name, name_pattern
from ci_doctor.system.secrets.redaction import Redactor

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
