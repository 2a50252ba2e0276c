# SPDX-License-Identifier: Apache-2.0
"""Reads what jobs print around the command that fails, from `noise.toml`, and fills it in."""

import random
import tomllib
from functools import cache
from pathlib import Path

import msgspec

_TABLE = Path(__file__).with_name("noise.toml")
_WORDS = ("vector", "ledger", "router", "tokens", "gateway", "mixer", "planner", "sampler")


class Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command that a job gets over, and what it prints."""

    name: str
    command: str
    lines: str
    held_out: bool = False


class Noise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The blocks that stand before a failing command, and those that a clean-up prints after it."""

    before: tuple[Block, ...]
    after: tuple[Block, ...]


@cache
def read_noise(*, held_out: bool) -> Noise:
    """The blocks for measuring only if `held_out`, else the others."""
    data = msgspec.convert(tomllib.loads(_TABLE.read_text(encoding="utf-8")), Noise)
    return Noise(
        before=tuple(block for block in data.before if block.held_out is held_out),
        after=tuple(block for block in data.after if block.held_out is held_out),
    )


def filled(block: Block, chance: random.Random) -> tuple[str, list[str]]:
    """The command of `block` and its lines, with names and numbers of this log."""
    values = {
        "{n}": str(chance.randrange(2, 99)),
        "{hex}": f"{chance.randrange(16**12):012x}",
        "{word}": chance.choice(_WORDS),
    }
    command, text = block.command, block.lines.strip("\n")
    for name, value in values.items():
        command = command.replace(name, value)
        text = text.replace(name, value)
    return command, text.split("\n")
