# SPDX-License-Identifier: Apache-2.0
"""Pure. What a command's documentation says, as data."""

from msgspec import Struct


class OptionManual(Struct, frozen=True, kw_only=True):
    """An option: `names` such as `-h`, the word for its value if it takes one, its help in a phrase.

    `values` says which values it takes, `default` what an absent option means. `key` is the key of
    the configuration that it overrides, and `variable` the environment variable of that key.
    """

    names: tuple[str, ...]
    value: str | None
    help: str
    values: str | None
    default: str | None
    is_required: bool
    key: str | None
    variable: str | None


class OptionsManual(Struct, frozen=True, kw_only=True):
    """The options below one heading."""

    heading: str
    options: tuple[OptionManual, ...]


class CommandManual(Struct, frozen=True, kw_only=True):
    """A command: `words` as they are typed, and what its help says.

    `synopsis` is what stands behind the words. `commands` are those below it, with what each does, by
    its words. `exits` holds every exit code with its meaning. `group` is the heading of the root's help.
    """

    words: tuple[str, ...]
    group: str
    summary: str
    description: tuple[str, ...]
    synopsis: tuple[str, ...]
    options: tuple[OptionsManual, ...]
    commands: dict[tuple[str, ...], str]
    examples: dict[str, str]
    exits: dict[int, str]
    own_exits: frozenset[int]
    section: str | None

    @property
    def page(self) -> str:
        """Its name in addresses, as `ci-doctor-build-merge`."""
        return "-".join(self.words)
