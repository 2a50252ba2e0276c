# SPDX-License-Identifier: Apache-2.0
"""Pure. An answer with `choices` in its canonical form: completions, chats, responses."""

from collections.abc import Sequence
from typing import Any

from ci_doctor.load.canonical import (
    Canonical,
    as_object,
    checked_choices,
    digest,
    meta_of,
    parse_value,
    usage_of,
)
from ci_doctor.load.choices import NotAnAnswerError, compared_choice, index_of, is_empty
from ci_doctor.load.logprobs import as_float32

_NUMBERS = frozenset({"logprobs", "prompt_logprobs"})


def canonicalise(body: bytes, expected: int | None = None) -> Canonical:
    """Divide a 200 response to a request for `expected` choices (None: unknown).

    Raises NotAnAnswerError if the body is not a whole answer. Log-probabilities are taken as
    float32 (see `logprobs`), every other number as it stands.
    """
    return canonicalise_value(parse_value(body), expected)


def canonicalise_value(value: Any, expected: int | None = None) -> Canonical:
    """`canonicalise` for an answer that is parsed already."""
    answer = as_object(value)
    choices = checked_choices(answer)
    if expected is not None and len(choices) != expected:
        raise NotAnAnswerError(f"{len(choices)} choices in the answer, {expected} were requested")
    try:
        return _divided(answer, sorted(choices, key=index_of))
    except RecursionError as error:
        raise NotAnAnswerError("nested too deep") from error


def _divided(value: dict[str, Any], choices: Sequence[dict[str, Any]]) -> Canonical:
    usage = usage_of(value.get("usage"))
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
        meta=meta_of(value, usage),
        prompt_facts=_prompt_facts(value, usage, choices),
        empty=all(map(is_empty, compared)),
    )


def _words(output: dict[str, Any]) -> dict[str, Any]:
    """`output` without log-probabilities."""
    words = _without_numbers(output)
    choices = output["choices"]
    words["choices"] = [_without_numbers(choice) for choice in choices]
    return words


def _without_numbers(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in _NUMBERS}


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
