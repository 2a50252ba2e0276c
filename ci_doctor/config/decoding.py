# SPDX-License-Identifier: Apache-2.0
"""Reads one section into a struct: defaults < file < environment < flags, each with its origin."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, inspect
from msgspec.structs import asdict

from ci_doctor.config.loading import Config, Keys
from ci_doctor.decodable import decodable
from ci_doctor.errors import ConfigError, UsageError
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import EXIT_CODES, Verdict
from ci_doctor.model.words import did_you_mean, letters_apart, near_names, nearest, parse_duration

DEFAULT = "default"
_FLAG = "flag --"
_ENVIRONMENT = "environment "
_DURATION_HINT = 'write it as "90s", "25m" or "1h30m"'
# They begin as the variables of a section do, and set none of its keys.
_NO_KEYS = {
    "CI_DOCTOR_CACHE_DIR",
    "CI_DOCTOR_CACHE_KEY_TEXT",
    "CI_DOCTOR_CACHE_SECONDS",
    "CI_DOCTOR_PYTEST_PLAN",
    "CI_DOCTOR_PYTEST_RECORD",
}
_MISTYPED = 2  # letters
S = TypeVar("S", bound=msgspec.Struct)
Environ = Mapping[str, str]
Origins = dict[str, str]  # by the name of a key
StructType = type[msgspec.Struct]
PlaceOf = Callable[..., str]  # a path of keys -> the place that an error names


def decode_section(
    config: Config,
    section: str,
    into: type[S],
    *,
    environ: Environ,
    flags: Mapping[str, Any],
) -> tuple[S, Origins]:
    """Return one section as `into`, and the origin of each of its values by name.

    `flags` holds only what the command line gave; an absent flag is missing, None or empty.
    Raises ConfigError for an unknown key or a wrong type; it names file and line if the value
    came from the file.
    """
    kinds = _types_of(into)
    _check_variables(section, kinds, environ)
    table = config.tables.get(section, {})
    values: dict[str, Any] = dict(table)
    origins = {name: config.where(section, name) for name in values}
    for name, kind in kinds.items():
        variable = variable_name(section, name)
        # An empty variable counts as none: a pipeline's YAML can empty one, not unset it.
        text = environ.get(variable, "")
        if text:
            values[name] = _from_environment(variable, text, kind)
            origins[name] = f"{_ENVIRONMENT}{variable}"
    for name, value in flags.items():
        if value not in (None, ()):
            option = name.replace("_", "-")
            values[name] = value
            origins[name] = f"{_FLAG}{option}"

    # Only now: an error is about the value that counts, and not one that it takes the place of.
    where = partial(place_of, config, section, origins)
    settings = convert(values, into, where)
    # In the order of the struct, which `config show` prints.
    ordered = {name: origins.get(name, DEFAULT) for name in kinds}
    return settings, ordered


def _check_variables(section: str, names: Iterable[str], environ: Environ) -> None:
    """Raises ConfigError for a variable that is nearly one of a key of this section.

    One that is like none of them may be somebody else's.
    """
    known = {variable_name(section, name): name for name in names}
    prefix = variable_name(section, "")
    for variable in environ:
        if not variable.startswith("CI_DOCTOR_") or variable in known or variable in _NO_KEYS:
            continue
        near = [each for each in known if letters_apart(variable, each) <= _MISTYPED]
        if variable.startswith(prefix):
            meant = near_names(variable.removeprefix(prefix), known.values())
            near += [variable_name(section, each) for each in meant]
        if near and environ[variable]:
            raise ConfigError(
                f"{_ENVIRONMENT}{variable}: no key of [{section}] has this variable",
                hint=did_you_mean(variable, near) or f"did you mean `{near[0]}`?",
            )


def variable_name(section: str, name: str) -> str:
    """The environment variable of a key: `CI_DOCTOR_CORRECTNESS_RETRIES`."""
    # A dash cannot stand in the name of a shell's variable.
    return f"CI_DOCTOR_{section}_{name}".replace("-", "_").upper()


def convert(values: Any, into: type[S], where: PlaceOf) -> S:
    """Return `values` as a struct. `where` maps a path of keys to a place for the error.

    Raises ConfigError for an unknown key or a wrong type.
    """
    try:
        return msgspec.convert(values, decodable(into))
    except msgspec.ValidationError as error:
        raise _readable(error, into, where) from error


def path_in(config: Config, origin: str, text: str) -> Path:
    """A path of a setting: relative to the file that named it, or else to the working directory."""
    if _is_file(origin):
        return config.directory / text
    return Path(text)


def seconds_of(value: str | float, name: str) -> float:
    """Return the seconds of a duration. Raises UsageError, which calls the setting `name`."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", hint=_DURATION_HINT) from error


def seconds_above_zero(value: str | float, name: str) -> float:
    """The same for a setting that makes no sense as 0."""
    length = seconds_of(value, name)
    if length <= 0:
        raise UsageError(f"{name} must be more than 0", hint=_DURATION_HINT)
    return length


def _is_file(origin: str) -> bool:
    """Whether an origin is a place in the configuration file."""
    if origin == DEFAULT:
        return False
    # With the whole prefix of our variables: a file may be called "environment x.toml".
    others = (_FLAG, f"{_ENVIRONMENT}CI_DOCTOR_")
    return not origin.startswith(others)


def place_of(config: Config, section: str, origins: Origins, keys: Keys) -> str:
    """The place to name in an error about the value at `keys` of a section."""
    if not keys:  # the section as a whole is wrong, which none of its values explains
        return ""
    name = str(keys[0])
    origin = origins.get(name, "")
    if _is_file(origin):
        return config.where(section, *keys)
    return origin


def _from_environment(variable: str, text: str, kind: Any) -> Any:
    """Return the value of a variable: JSON for lists and tables, any other text as it stands."""
    try:
        if text.startswith(("[", "{")):
            return msgspec.json.decode(text)
        # Not strict: "1" and "true" become the number or boolean that the key asks for.
        value = msgspec.convert(text, decodable(kind), strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        sentence = f"{_ENVIRONMENT}{variable}: {_in_words(str(error))}"
        allowed = _allowed(inspect.type_info(kind), "a JSON array", "a JSON object")
        near = _near_choice(str(error), kind)
        hint = f"{near}set it to {allowed}, or unset it"
        raise ConfigError(sentence, hint=hint) from error
    # Back to builtins, because `convert` checks all the values of a section at once.
    return msgspec.to_builtins(value)


def _readable(error: msgspec.ValidationError, into: StructType, where: PlaceOf) -> ConfigError:
    """A ConfigError with the place, the sentence and the nearest key for msgspec's message."""
    # msgspec keeps the place in its text alone: "... - at `$.services[0].port`".
    message, _, path = str(error).partition(" - at `$")
    keys = _keys_of(path)
    unknown = re.search(r"unknown field `([^`]+)`", message)
    if unknown:
        name = unknown[1]
        # The path leads to the table that holds the key; its line is that of the key itself.
        place = where((*keys, name))
        hint = did_you_mean(name, _fields_at(into, keys))
        return ConfigError(f"{place}: unknown key `{name}`", hint=hint)
    shown = ".".join(map(str, keys)) or "this table"
    if "[...]" in path:  # a value of a mapping, whose key msgspec does not name
        shown += " (one of its values)"
    place = where(keys)
    kind = inspect.type_info(into)
    for key in keys:
        kind = _type_at(kind, key) or inspect.AnyType()
    if "[...]" in path:
        kind = _type_at(kind, "") or inspect.AnyType()
    return ConfigError(
        f"{place}: {shown}: {_in_words(message)}",
        hint=f"{_near_choice(message, kind)}write {_allowed(kind)}",
    )


def _type_at(kind: inspect.Type, key: str | int) -> inspect.Type | None:
    """The type of what stands at `key` of a value; None if it can have nothing there."""
    for each in _alternatives(kind):
        match each:
            case inspect.StructType(fields=fields):
                named = (field.type for field in fields if field.encode_name == key)
                if (inner := next(named, None)) is not None:
                    return inner
            case inspect.DictType(value_type=inner):
                return inner
            case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
                return inner
            case inspect.SetType(item_type=inner) | inspect.FrozenSetType(item_type=inner):
                return inner
            case _:
                continue
    return None


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    """The types of a union that a file can hold: TOML has no null."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    bare = [each.type if isinstance(each, inspect.Metadata) else each for each in kinds]
    return [each for each in bare if not isinstance(each, inspect.NoneType)]


def _choices(kind: inspect.Type) -> list[str]:
    """The words that are allowed; none if any text is, or none."""
    words: list[str] = []
    for each in _alternatives(kind):
        match each:
            case inspect.LiteralType(values=values):
                words += map(str, values)
            case inspect.EnumType(cls=cls):
                words += [str(member.value) for member in cls]
            case _:
                continue
    return words


def _near_choice(message: str, kind: Any) -> str:
    """A question that names the word which a mistyped one is like; empty without one."""
    if not isinstance(kind, inspect.Type):
        kind = inspect.type_info(kind)
    mistyped = re.search(r"enum value '([^']*)'", message)
    near = nearest(mistyped[1], _choices(kind)) if mistyped else None
    return f"did you mean `{near}`? Or " if near is not None else ""


def _allowed(kind: inspect.Type, array: str = "an array", table: str = "a table") -> str:
    """What a value may be, in words."""
    words = [f'"{word}"' for word in _choices(kind)]
    for each in _alternatives(kind):
        match each:
            case inspect.BoolType():
                words.append("true or false")
            case inspect.IntType(ge=ge, gt=gt):
                least = ge if ge is not None else None if gt is None else gt + 1
                words.append("a whole number" + ("" if least is None else f" from {least} on"))
            case inspect.FloatType():
                words.append("a number")
            case inspect.StrType():
                words.append("a text in quotes")
            case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
                words.append(f'{array}, such as ["a", "b"]')
            case inspect.StructType() | inspect.DictType():
                words.append(table)
            case _:
                continue
    return (
        " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words) or "another value"
    )


# msgspec's words for types, and those of TOML.
_KINDS = {
    "int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false",
    "array": "an array", "object": "a table", "null": "nothing",
}  # fmt: skip


def _in_words(message: str) -> str:
    """A sentence of msgspec as the end of one of ours."""
    if choice := re.fullmatch(r"Invalid enum value (.*)", message):
        return f"{choice[1]} is not one of its values"
    if kinds := re.fullmatch(r"Expected `([^`]*)`(.*?)(?:, got `([^`]*)`)?", message):
        named = [_KINDS.get(each.strip(), each) for each in kinds[1].split("|")]
        wanted = " or ".join(each for each in named if each != "nothing")
        got = f", got {_KINDS.get(kinds[3], kinds[3])}" if kinds[3] else ""
        return f"expected {wanted}{kinds[2]}{got}"
    return message[:1].lower() + message[1:]


def _keys_of(path: str) -> Keys:
    """The keys in `.services[0].port`."""
    # One of the two is empty; an index as a number, as `line_of` counts.
    found = re.findall(r"\.([\w-]+)|\[(\d+)\]", path)
    return tuple(name or int(index) for name, index in found)


def _fields_at(into: StructType, keys: Keys) -> list[str]:
    """The field names of the struct that `keys` lead to; an index stays in the same struct."""
    for key in keys:
        if isinstance(key, str):
            into = _struct_at(into, key) or into
    # Encoded names: those are the keys that a file has, with dashes if the struct renames.
    return [field.encode_name for field in msgspec.structs.fields(into)]


def _struct_at(into: StructType, name: str) -> StructType | None:
    """The struct in a field's type: `Arm` of `Arm`, `Arm | None`, `list[Arm]`; None without one."""
    declared = _types_of(into).get(name)
    # `Arm | None` and `list[Arm]` keep their parts in the same attribute.
    parts = getattr(declared, "__args__", ())
    for kind in (declared, *parts):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return kind
    return None


def _types_of(into: StructType) -> dict[str, Any]:
    """The declared types of a struct's fields, by name and in its order."""
    return {field.name: field.type for field in msgspec.structs.fields(into)}


# What a pipeline does with these two would be wrong for a verdict that must stop it.
_NOT_FAILURES = (("infra", "is retried"), ("nondeterministic", "passes as a soft fail"))
_FAILURES = ("regression", "failed")


class ExitCodes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The exit code of each verdict that has one; `flaky` only if it fails the command."""

    regression: int = EXIT_CODES[Verdict.REGRESSION].value
    failed: int = EXIT_CODES[Verdict.FAILED].value
    flaky: int = EXIT_CODES[Verdict.FLAKY].value
    nondeterministic: int = EXIT_CODES[Verdict.NONDETERMINISTIC].value
    infra: int = EXIT_CODES[Verdict.INFRA].value
    inconclusive: int = EXIT_CODES[Verdict.INCONCLUSIVE].value
    void: int = EXIT_CODES[Verdict.VOID].value


def read_exit_codes(config: Config, environ: Environ) -> tuple[dict[str, int], Origins]:
    """The codes by verdict, and the origin of each.

    Raises ConfigError for a code that no verdict can have, and for one that a failure shares with
    a verdict which a pipeline does not fail for.
    """
    settings, origins = decode_section(config, "exit-codes", ExitCodes, environ=environ, flags={})
    codes: dict[str, int] = asdict(settings)
    for name, code in codes.items():
        origin = origins[name]
        if origin != DEFAULT and not _can_serve(code):
            raise ConfigError(
                f"{origin}: {name} = {code} cannot be an exit code of a verdict",
                hint="use 1 to 124 or 255, but not 2 (usage) or 70 (a bug); "
                "125 to 254 belong to the agent and the shell",
            )
    for name, fate in _NOT_FAILURES:
        code = codes[name]
        for failure in _FAILURES:
            if code == codes[failure]:
                raise _shared(name, failure, fate, code, origins)
    return codes, origins


def _shared(name: str, failure: str, fate: str, code: int, origins: Origins) -> ConfigError:
    """The error for one code of two verdicts which a pipeline must tell apart."""
    # One of the two is not a default, for our own codes differ.
    place = origins[name]
    if place == DEFAULT:
        place = origins[failure]
    return ConfigError(
        f"{place}: {name} and {failure} share the code {code}",
        hint=f"a pipeline distinguishes them by their codes: {name} {fate}, and "
        f"{failure} must never be taken for it",
    )


def _can_serve(code: int) -> bool:
    """Whether a verdict may have this code: no other meaning is known to the agent or a shell."""
    # What a command may end with by itself; 255 is what `exit -1` becomes.
    is_free = code == 255 or 1 <= code <= 124
    return is_free and code not in {ExitCode.USAGE, ExitCode.BUG}
