# SPDX-License-Identifier: Apache-2.0
"""What a request asks, how much it leaves to the model, and copies of it with another prompt. Pure.

Three ways lead to a changed prompt, for a control. The first keeps the words, in reverse order, and adds a
sentence. The second keeps nothing, and is short: a prompt at the limit of the context stays within it. A third
one keeps the length, both ends and the number of words, and changes what is between.

A shorter prompt is a part of it. A text is measured in characters, a list of token ids in tokens. Of a chat, the
last message is cut, and the others stay. Other prompts (several at once, parts with pictures) have no length here.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.load.requests import Request, protocol_of

# The keys under which the APIs take a prompt. Completions, chats, embeddings and responses,
# rerank, vLLM's scores, and the own APIs of text-generation-inference and SGLang.
PROMPT_KEYS = (
    "messages",
    "prompt",
    "input",
    "query",
    "queries",
    "text_1",
    "data_1",
    "inputs",
    "text",
)
# Where these two have what other APIs have beside the prompt.
_NESTED = ("parameters", "sampling_params")
_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens")
# What binds a model to a form or to a choice: OpenAI's, vLLM's, SGLang's and llama.cpp's names.
_RESTRICTIONS = (
    "response_format",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "json_schema",
    "regex",
    "ebnf",
    "grammar",
    "logit_bias",
    "allowed_token_ids",
)
_FREE_CHOICE = (None, "none", "auto")
# With fewer tokens, two prompts easily have the same answer.
_FEW_TOKENS = 4


def prompt_of(request: Request) -> str:
    """The prompt as a text to compare; the whole body if the API is unknown."""
    body = request.body
    return str(next((body[key] for key in PROMPT_KEYS if key in body), body))


def user_text(request: Request) -> str:
    """The text that the user wrote: a prompt, or the last message of a chat; empty if it is no text."""
    for key in PROMPT_KEYS:
        value = request.body.get(key)
        if key == "messages" and isinstance(value, list) and value:
            value = value[-1].get("content") if isinstance(value[-1], dict) else None
        if isinstance(value, str):
            return value
    return ""


def token_limit(request: Request) -> int | None:
    """The most tokens that the answer may have; None if the request names no limit."""
    parameters = parameters_of(request)
    limits: list[Any] = [parameters.get(key) for key in _LIMITS]
    # By type: True is an int.
    return next((limit for limit in limits if type(limit) is int), None)


def parameters_of(request: Request) -> Mapping[str, Any]:
    """What a request says beside its prompt, wherever its API has it."""
    parameters = dict(request.body)
    for key in _NESTED:
        nested = request.body.get(key)
        if isinstance(nested, Mapping):
            parameters |= nested
    return parameters


def is_free(request: Request) -> bool:
    """Whether the model may write what it wants, and enough to differ from prompt to prompt."""
    body = request.body
    limit = token_limit(request)
    is_long_enough = limit is None or limit >= _FEW_TOKENS
    # The format `text` is no restriction.
    bound = [body.get(key) for key in _RESTRICTIONS if body.get(key) != {"type": "text"}]
    is_sampled = protocol_of(request).sampled
    return (
        is_sampled
        and is_long_enough
        and body.get("tool_choice") in _FREE_CHOICE
        and not any(map(bool, bound))
    )


def is_greedy(request: Request) -> bool:
    """Whether the request asks for the most probable answer, and so for the same one each time."""
    temperature = parameters_of(request).get("temperature")
    return type(temperature) in {int, float} and temperature == 0


# Any sentence that no requests file is likely to hold.
_SENTENCE = "Now name three rivers that flow into the Baltic Sea."
# A model goes on with it, whatever it answered to the original.
_OTHER_PROMPT = "Continue this list: copper, silver, zinc, tin,"

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NEXT_LETTER = str.maketrans(
    _LETTERS + _LETTERS.upper(), _LETTERS[1:] + "a" + _LETTERS[1:].upper() + "A"
)


class PromptChange(StrEnum):
    """How a prompt is changed."""

    REVERSED = "reversed"
    REPLACED = "replaced"
    INSIDE = "inside"


def changed_body(request: Request, change: PromptChange) -> dict[str, Any] | None:
    """The body with another prompt and the same parameters; None if there is no known prompt."""
    body = request.body
    for key in PROMPT_KEYS:
        value = _changed(body.get(key), change)
        if value is not None:
            return {**body, key: value}
    return None


def _changed(value: Any, change: PromptChange) -> Any:
    """A prompt in any form that an API takes; None if it is in none of them."""
    if isinstance(value, str):
        return _TEXT[change](value)
    if not isinstance(value, list) or not value:
        return None
    if all(type(each) is int for each in value):
        return _changed_tokens(value, change)
    if all(isinstance(each, dict) for each in value):
        return _changed_messages(value, change)
    # Several prompts: one answer each is still expected.
    changed = [_changed(each, change) for each in value]
    return None if None in changed else changed


def _reversed(text: str) -> str:
    words = reversed(text.split())
    return " ".join([*words, _SENTENCE])


def _replaced(_text: str) -> str:
    return _OTHER_PROMPT


def other_letter(letter: str) -> str:
    """Another letter of the Latin alphabet, or another digit; any other character as it is."""
    if letter in "0123456789":
        return str((int(letter) + 1) % 10)
    return letter.translate(_NEXT_LETTER)


def _inside(text: str) -> str:
    """Other letters in the middle third; in all but the ends if it has no letters."""
    for part in (len(text) // 3, 1, 0):
        middle = text[part : len(text) - part]
        changed = text[:part] + middle.translate(_NEXT_LETTER) + text[len(text) - part :]
        if changed != text:
            return changed
    # Letters of another script.
    return text[:1] + text[-2:0:-1] + text[-1:]


_TEXT: Mapping[PromptChange, Callable[[str], str]] = {
    PromptChange.REVERSED: _reversed,
    PromptChange.REPLACED: _replaced,
    PromptChange.INSIDE: _inside,
}


def _changed_tokens(tokens: list[int], change: PromptChange) -> list[int]:
    """Token ids of the same model: no other ids than those of the prompt are known to exist."""
    changed = tokens[::-1]
    if change is PromptChange.INSIDE:
        third = len(tokens) // 3
        middle = tokens[third : len(tokens) - third]
        changed = [*tokens[:third], *middle[::-1], *tokens[len(tokens) - third :]]
        # What is the same in both directions gets a token of one end in its middle.
        if changed == tokens and len(set(tokens)) > 1:
            other = next(each for each in tokens if each != middle[0])
            changed = [*tokens[:third], *[other] * len(middle), *tokens[len(tokens) - third :]]
    if change is PromptChange.REPLACED:
        changed = changed[: len(changed) // 2] or changed * 3
    # Reversed, the same token again and again is the same prompt.
    return changed if changed != tokens else [*tokens, tokens[0]]


def _changed_messages(messages: list[dict[str, Any]], change: PromptChange) -> Any:
    """A chat whose last message of the user is another one."""
    place = _last_of_user(messages)
    content = _changed_content(messages[place].get("content"), change)
    if content is None:
        return None
    message = {**messages[place], "content": content}
    # All others stay: a server may read these and ignore what the user wrote.
    return [*messages[:place], message, *messages[place + 1 :]]


def _last_of_user(messages: list[dict[str, Any]]) -> int:
    """The place of the last message of the user; of the last one if there is none."""
    places = [at for at, each in enumerate(messages) if each.get("role") == "user"]
    return places[-1] if places else len(messages) - 1


def _changed_content(content: Any, change: PromptChange) -> Any:
    """The content of a message: a text, or parts of which some are texts."""
    if isinstance(content, str):
        return _TEXT[change](content)
    if not isinstance(content, list):
        return None
    parts = []
    is_changed = False
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            part = {**part, "text": _TEXT[change](part["text"])}  # noqa: PLW2901 - the changed one
            is_changed = True
        parts.append(part)
    # A picture alone has no words.
    return parts if is_changed else None


Cut = str | list[int]


class PromptLength(Struct, frozen=True, kw_only=True):
    """How long a prompt is, and in what that is measured (`characters` or `tokens`)."""

    count: int
    unit: str


def prompt_length(request: Request) -> PromptLength | None:
    """The length of what `with_prompt` changes; None if the prompt cannot be cut."""
    prompt_cut = _cut_of(request.body)
    if prompt_cut is None:
        return None
    _, cut = prompt_cut
    unit = "characters" if isinstance(cut, str) else "tokens"
    return PromptLength(count=len(cut), unit=unit)


def with_prompt(request: Request, change: Callable[[Cut], Cut]) -> Request:
    """The request with what `change` makes of its prompt.

    Raises ValueError if the prompt cannot be cut.
    """
    prompt_cut = _cut_of(request.body)
    if prompt_cut is None:
        raise ValueError(f"the prompt of {request.id} cannot be cut")
    key, cut = prompt_cut
    changed: Any = change(cut)
    if key == "messages":
        messages = request.body[key]
        changed = [*messages[:-1], {**messages[-1], "content": changed}]
    return replace(request, body={**request.body, key: changed})


def contents_of(request: Request) -> list[Cut]:
    """All texts or token ids of a prompt, message by message; empty if a message holds something else."""
    messages = request.body.get("messages")
    if isinstance(messages, list) and all(isinstance(each, dict) for each in messages):
        texts = [each["content"] for each in messages if each.get("content") is not None]
        return texts if all(isinstance(each, str) for each in texts) else []
    prompt_cut = _cut_of(request.body)
    return [prompt_cut[1]] if prompt_cut is not None else []


def with_contents(request: Request, change: Callable[[Cut, int], Cut]) -> Request:
    """The request with what `change` makes of each content, given the length of those before it.

    Without any (see `contents_of`) it is the same request.
    """
    changed: list[Cut] = []
    begin = 0
    for each in contents_of(request):
        changed.append(change(each, begin))
        begin += len(each)
    if not changed:
        return request
    if "messages" not in request.body:
        return with_prompt(request, lambda _cut: changed[0])
    rest = iter(changed)
    messages = [
        each if each.get("content") is None else {**each, "content": next(rest)}
        for each in request.body["messages"]
    ]
    return replace(request, body={**request.body, "messages": messages})


def halved(count: int, most: int) -> Iterator[int]:
    """At most `most` lengths below `count`, each half of the one before, down to 1."""
    for _ in range(most):
        count //= 2
        if count < 1:
            return
        yield count


def _cut_of(body: dict[str, Any]) -> tuple[str, Cut] | None:
    """The key of the prompt, and what of it can be cut."""
    for key in PROMPT_KEYS:
        value = body.get(key)
        if key == "messages" and isinstance(value, list) and value:
            value = value[-1].get("content") if isinstance(value[-1], dict) else None
        cut = _cuttable(value)
        if cut is not None:
            return key, cut
    return None


def _cuttable(value: Any) -> Cut | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(type(each) is int for each in value):
        return value
    return None
