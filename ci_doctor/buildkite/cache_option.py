# SPDX-License-Identifier: Apache-2.0
"""Pure. The plugin's option `cache`: what is restored before the command, and saved after it."""

import json
from collections.abc import Callable, Mapping

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.model.words import did_you_mean

_PREFIX = "cache-"


class CacheOption(Struct, frozen=True, kw_only=True):
    """What the step writes; None or empty for what `[cache]` says.

    strict: whether a problem with the restore ends the job before its command. save: whether a command
    that succeeded saves its caches.
    """

    store: str | None = None
    families: tuple[str, ...] = ()
    trust: str | None = None
    key: str | None = None
    allowed_signers: str | None = None
    budget: str | None = None
    strict: bool = False
    save: bool = True


def cache_option(_name: str, value: object) -> CacheOption | None:
    """The option as the agent hands it over; None for false. `true` takes all from `[cache]`.

    Raises UsageError for an unknown key and for a value of the wrong type.
    """
    if value is False or value == "false":
        return None
    if value is True or value == "true":
        return CacheOption()
    if not isinstance(value, dict):
        raise _wrong("", value, "neither true, false nor a mapping")
    fields = {key.replace("-", "_"): _converted(key, item) for key, item in value.items()}
    return CacheOption(**fields)  # type: ignore[arg-type]


def nested(values: Mapping[str, object]) -> dict[str, object]:
    """Options of flat variables, with `cache-store` and the like as keys of `cache`."""
    options: dict[str, object] = {}
    inner: dict[str, object] = {}
    for name, value in values.items():
        if name.startswith(_PREFIX):
            inner[name.removeprefix(_PREFIX)] = value
        else:
            options[name] = value
    if inner:
        options["cache"] = inner
    return options


def restore_arguments(option: CacheOption, config: str | None) -> list[str]:
    """The option as arguments of `ci-doctor cache restore`."""
    words = _shared(option, config)
    if option.trust is not None:
        words += ["--trust", option.trust]
    if option.strict:
        words.append("--strict")
    return words


def save_arguments(option: CacheOption, config: str | None) -> list[str]:
    """The option as arguments of `ci-doctor cache save`; never strict: the job has succeeded."""
    words = _shared(option, config)
    if option.key is not None:
        words += ["--key", option.key]
    return words


def effect_arguments(option: CacheOption, config: str | None) -> list[str]:
    """The option as arguments of `ci-doctor cache verify`."""
    words = ["--effect"]
    if config is not None:
        words += ["--config", config]
    for family in option.families:
        words += ["--family", family]
    return words


def _shared(option: CacheOption, config: str | None) -> list[str]:
    words: list[str] = []
    if config is not None:
        words += ["--config", config]
    if option.store is not None:
        words += ["--store", option.store]
    for family in option.families:
        words += ["--family", family]
    if option.allowed_signers is not None:
        words += ["--allowed-signers", option.allowed_signers]
    if option.budget is not None:
        words += ["--budget", option.budget]
    return words


def _converted(key: str, value: object) -> object:
    convert = _KEYS.get(key)
    if convert is None:
        raise UsageError(
            f"option `cache` of the ci-doctor plugin has no key `{key}`",
            hint=did_you_mean(key, _KEYS),
        )
    return convert(key, value)


def _text(key: str, value: object) -> str:
    # A duration may be written as a number.
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise _wrong(key, value, "no text")
    return value


def _texts(key: str, value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(_text(key, item) for item in values)


def _switch(key: str, value: object) -> bool:
    text = value if isinstance(value, str) else json.dumps(value)
    if text not in ("true", "false"):
        raise _wrong(key, value, "neither true nor false")
    return text == "true"


def _wrong(key: str, value: object, what: str) -> UsageError:
    name = f"cache: {key}" if key else "cache"
    return UsageError(f"option `{name}` of the ci-doctor plugin: {json.dumps(value)} is {what}")


_KEYS: Mapping[str, Callable[[str, object], object]] = {
    "store": _text,
    "families": _texts,
    "trust": _text,
    "key": _text,
    "allowed-signers": _text,
    "budget": _text,
    "strict": _switch,
    "save": _switch,
}
