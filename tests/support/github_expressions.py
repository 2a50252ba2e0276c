# SPDX-License-Identifier: Apache-2.0
"""Expressions of GitHub Actions, as far as our workflows use them.

Copied from https://docs.github.com/en/actions/reference/workflows-and-actions/expressions: literals, contexts, the
operators `! == != && ||` with their precedence, `&&` and `||` that give one of their operands, strings compared without
regard to case, a property that is not there as null, and the functions of status. A condition without one of these
functions holds only if nothing before it failed. Numbers, other functions, `*` and `[…]` are left out, and refused.
"""

import re
from collections.abc import Mapping
from typing import Any

_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|[A-Za-z_][\w.-]*|==|!=|&&|\|\||[!()])")
_STATUS = ("always", "success", "failure", "cancelled")
_TEMPLATE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_LITERALS = {"true": True, "false": False, "null": None}


def render(text: str, contexts: Mapping[str, Any], *, failed: bool = False) -> str:
    """`text` with each `${{ … }}` replaced by its value."""
    return _TEMPLATE.sub(lambda found: as_text(evaluate(found[1], contexts, failed=failed)), text)


def holds(condition: str | None, contexts: Mapping[str, Any], *, failed: bool) -> bool:
    """Whether a step or job with this `if:` runs; `failed` says whether something before it failed."""
    if condition is None:
        return not failed
    plain = condition.strip()
    template = _TEMPLATE.fullmatch(plain)
    plain = template[1] if template else plain
    has_status = any(re.search(rf"\b{name}\s*\(", plain) for name in _STATUS)
    if failed and not has_status:
        return False
    return bool(evaluate(plain, contexts, failed=failed))


def as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    assert isinstance(value, str), value
    return value


def evaluate(text: str, contexts: Mapping[str, Any], *, failed: bool) -> Any:
    """The value of an expression."""
    tokens: list[str] = []
    place = 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        assert found, f"not known here: {text[place:]!r}"
        tokens.append(found[1])
        place = found.end()
    parser = _Parser(tokens, contexts, failed)
    value = parser.alternative()
    assert not parser.tokens, f"left over: {parser.tokens}"
    return value


class _Parser:
    def __init__(self, tokens: list[str], contexts: Mapping[str, Any], failed: bool) -> None:
        self.tokens = tokens
        self.contexts = contexts
        self.failed = failed

    def _takes(self, *words: str) -> str | None:
        if self.tokens and self.tokens[0] in words:
            return self.tokens.pop(0)
        return None

    def alternative(self) -> Any:
        value = self._conjunction()
        while self._takes("||"):
            other = self._conjunction()
            value = value or other
        return value

    def _conjunction(self) -> Any:
        value = self._comparison()
        while self._takes("&&"):
            other = self._comparison()
            value = value and other
        return value

    def _comparison(self) -> Any:
        value = self._operand()
        while operator := self._takes("==", "!="):
            equal = as_text(value).lower() == as_text(self._operand()).lower()
            value = equal == (operator == "==")
        return value

    def _operand(self) -> Any:
        if self._takes("!"):
            return not self._operand()
        if self._takes("("):
            value = self.alternative()
            assert self._takes(")")
            return value
        token = self.tokens.pop(0)
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token in _LITERALS:
            return _LITERALS[token]
        if self._takes("("):
            assert self._takes(")")
            return self._status(token)
        return self._property(token)

    def _status(self, name: str) -> bool:
        assert name in _STATUS, f"not known here: {name}()"
        return {
            "always": True,
            "success": not self.failed,
            "failure": self.failed,
            "cancelled": False,
        }[name]

    def _property(self, path: str) -> Any:
        value: Any = self.contexts
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value
