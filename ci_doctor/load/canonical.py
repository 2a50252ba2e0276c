# SPDX-License-Identifier: Apache-2.0
"""Pure. An OpenAI-compatible response, divided into what is compared and what is not.

Compared: what the model wrote, why it stopped, and the numbers it gave. Left out, and kept as
`meta`: what differs from call to call by design (ids, times, fingerprints, cache statistics).
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from ci_doctor.load import schema, strict_json
from ci_doctor.load.choices import NotAnAnswerError, compared_choice, index_of, is_empty
from ci_doctor.load.logprobs import as_float32

META_KEYS = (
    "id",
    "created",
    "system_fingerprint",
    "service_tier",
    "metrics",
    "kv_transfer_params",
    "ec_transfer_params",
)
_NUMBERS = frozenset({"logprobs", "prompt_logprobs"})
_COUNTS = ("completion_tokens", "prompt_tokens")
_READABLE = ("reasoning_content", "reasoning", "content", "refusal")


class Canonical(Struct, frozen=True, kw_only=True):
    """`output` is compared, `digest` is the SHA-256 of it as canonical JSON, `meta` is the rest.

    `words_digest` is the digest without log-probabilities. `prompt_facts` is the request as the
    server reports it (model, prompt tokens): arms that differ here did not get the same request.
    `empty`: no choice holds any text, reasoning or tool call.
    """

    output: dict[str, Any]
    digest: str
    words_digest: str
    meta: dict[str, Any]
    prompt_facts: dict[str, Any]
    empty: bool


def canonicalise(body: bytes, expected: int | None = None) -> Canonical:
    """Divide a 200 response to a request for `expected` choices (None: unknown).

    Raises NotAnAnswerError if the body is not a whole answer. NaN and Infinity are not JSON
    (RFC 8259), and a model that gives them is broken, whether or not the other arm is too.
    Log-probabilities are taken as float32 (see `logprobs`), every other number as it stands.
    """
    return canonicalise_value(parse_object(body), expected)


def parse_object(text: bytes | str) -> dict[str, Any]:
    """Parse a JSON object that is no error report. Raises NotAnAnswerError for anything else."""
    try:
        value = strict_json.parse(text)
    except ValueError as error:
        raise NotAnAnswerError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise NotAnAnswerError(f"a JSON {type(value).__name__} instead of an object")

    report = _error_report(value)
    if report is not None:
        shown = json.dumps(report)[:200]
        raise NotAnAnswerError(f"an error in a 200 response: {shown}")
    return value


def _error_report(value: dict[str, Any]) -> Any:
    """What an answer holds of an error; None if it reports none."""
    if value.get("error"):
        return value["error"]
    # vLLM before 0.10 and SGLang: the report is the whole object.
    if value.get("object") == "error":
        return value.get("message", value)
    return None


def canonicalise_value(value: dict[str, Any], expected: int | None = None) -> Canonical:
    """`canonicalise` for an answer that is parsed already."""
    choices = _choices(value)
    if expected is not None and len(choices) != expected:
        raise NotAnAnswerError(f"{len(choices)} choices in the answer, {expected} were requested")
    try:
        return _divided(value, sorted(choices, key=index_of))
    except RecursionError as error:
        raise NotAnAnswerError("nested too deep") from error


def _choices(value: dict[str, Any]) -> list[dict[str, Any]]:
    problem = schema.problem(value)
    if problem is not None:
        raise NotAnAnswerError(f"outside the API's schema: {problem}")
    choices = value.get("choices")
    if not choices:
        raise NotAnAnswerError("no `choices` in the answer")
    for choice in choices:
        # null is the API's word for a choice that is not finished. Some servers write "".
        if "finish_reason" in choice and not choice["finish_reason"]:
            written = json.dumps(choice["finish_reason"])
            raise NotAnAnswerError(f"the answer is not finished: its `finish_reason` is {written}")
    checked: list[dict[str, Any]] = choices
    return checked


def check_output(output: dict[str, Any]) -> None:
    """Raises NotAnAnswerError for an `output` that no answer can have been divided into.

    It may have been written by another program.
    """
    for choice in _choices(output):
        compared_choice(choice)
    _usage({"completion_tokens": output.get("completion_tokens")})


def _divided(value: dict[str, Any], choices: Sequence[dict[str, Any]]) -> Canonical:
    usage = _usage(value.get("usage"))
    compared = [compared_choice(choice) for choice in choices]
    output: dict[str, Any] = {"choices": compared}
    if "completion_tokens" in usage:
        output["completion_tokens"] = usage["completion_tokens"]
    if value.get("prompt_logprobs") is not None:
        output["prompt_logprobs"] = as_float32(value["prompt_logprobs"])
    whole_digest = digest(output)
    words_digest = whole_digest
    words = _words(output)
    # Most answers hold no log-probabilities, and hashing is most of the work here.
    if words != output:
        words_digest = digest(words)
    return Canonical(
        output=output,
        digest=whole_digest,
        words_digest=words_digest,
        meta=_meta(value, usage),
        prompt_facts=_prompt_facts(value, usage, choices),
        empty=all(map(is_empty, compared)),
    )


def _meta(value: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    """What differs from call to call by design, kept beside the answer."""
    meta = {key: value[key] for key in META_KEYS if key in value}
    if usage:
        meta["usage"] = usage
    return meta


def _words(output: dict[str, Any]) -> dict[str, Any]:
    """`output` without log-probabilities."""
    words = _without_numbers(output)
    choices = output["choices"]
    words["choices"] = [_without_numbers(choice) for choice in choices]
    return words


def _without_numbers(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in _NUMBERS}


def _usage(value: object) -> dict[str, Any]:
    """The counts of a `usage`. Raises NotAnAnswerError for what is no count.

    It would differ from a count, and count as another answer.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotAnAnswerError("`usage` is not an object")
    # null stands for a count that the server does not give.
    usage = {key: count for key, count in value.items() if count is not None}
    for key in _COUNTS:
        count = usage.get(key, 0)
        # By type: True is an int.
        if type(count) is not int or count < 0:
            raise NotAnAnswerError(f"`usage.{key}` is no count: {json.dumps(count)[:40]}")
    return usage


def _prompt_facts(
    value: dict[str, Any], usage: dict[str, Any], choices: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The request as the server reports it.

    vLLM has a chat's prompt tokens beside the choices, and a completion's in them.
    """
    facts: dict[str, Any] = {}
    # Not `created` and the like: only what is the same whenever the same request is sent.
    if value.get("model") is not None:
        facts["model"] = value["model"]
    if "prompt_tokens" in usage:
        facts["prompt_tokens"] = usage["prompt_tokens"]
    ids = [part.get("prompt_token_ids") for part in (value, *choices)]
    if ids.count(None) < len(ids):
        facts["prompt_token_ids"] = ids
    return facts


def encode(output: Any) -> bytes:
    """Canonical JSON: sorted keys, no spaces, ASCII. A JSON number decodes to one double exactly.

    Raises NotAnAnswerError for what cannot be written again, as a number beyond all doubles
    (`1e999`).
    """
    try:
        text = json.dumps(output, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise NotAnAnswerError(f"cannot be written as JSON again: {error}") from error
    return text.encode("ascii")


def digest(output: Any) -> str:
    """SHA-256 of `encode(output)`, in hex."""
    encoded = encode(output)
    return hashlib.sha256(encoded).hexdigest()


def text_of(output: dict[str, Any]) -> str:
    """The text of an output for people, all choices in order."""
    parts: list[str] = []
    choices = output.get("choices", [])
    for choice in choices:
        parts += _readable_parts(choice)
    return "\n".join(parts)


def is_blank(output: dict[str, Any]) -> bool:
    """Whether an output holds no word and no tool call.

    Token ids are no words: those of padding give no text.
    """
    return not text_of(output).strip()


def _readable_parts(choice: dict[str, Any]) -> Iterator[str]:
    if choice.get("text") is not None:
        yield str(choice["text"])
    message = choice.get("message", {})
    for key in _READABLE:
        if message.get(key):
            yield str(message[key])
    for call in message.get("tool_calls", []):
        yield json.dumps(call, sort_keys=True, ensure_ascii=False)
