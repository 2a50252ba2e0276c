# SPDX-License-Identifier: Apache-2.0
"""Pure. Options among the words of a command: read, replaced, taken away."""

from collections.abc import Sequence

from ci_doctor.scaffold.reading.variables import is_opaque, unknown_variables

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
    """`words` with another value of these options, also of one without; None if none of them is there."""
    made: list[str] = []
    is_there = is_next = False
    for word in words:
        if is_next and not word.startswith("-"):
            # It has a value, which stands there already.
            is_next = False
            continue
        name, equals, _ = word.partition("=")
        is_next = name in names and not equals
        is_there = is_there or name in names
        if is_next:
            made += [name, value]
        else:
            made.append(f"{name}={value}" if name in names else word)
    return made if is_there else None


def without_option(words: Sequence[str], name: str, values: int) -> list[str]:
    """`words` without an option and the `values` words behind it."""
    made: list[str] = []
    skipped = 0
    for word in words:
        if skipped:
            skipped -= 1
        elif word == name:
            skipped = values
        elif word.partition("=")[0] != name:
            made.append(word)
    return made


def has_option(words: Sequence[str], *names: str) -> bool:
    """Whether one of these options is there."""
    return any(word.partition("=")[0] in names for word in words)


def with_bound_port(words: Sequence[str], names: Sequence[str]) -> list[str] | None:
    """`words` with the free port in HOST:PORT; a socket of a file becomes one of the loopback."""
    bound = option_value(words, names)
    if bound is None:
        return with_value(words, names, f"127.0.0.1:{PORT}")
    host, _, _ = bound.rpartition(":")
    # `unix:/run/x.sock`, and a host that only the script knows.
    is_known = not unknown_variables([host]) and not is_opaque([host])
    if not host or host == "unix" or "/" in bound or not is_known:
        host = "127.0.0.1"
    return with_value(words, names, f"{host}:{PORT}")
