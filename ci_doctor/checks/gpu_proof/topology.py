# SPDX-License-Identifier: Apache-2.0
"""Pure. Reads what `nvidia-smi topo -m` prints: how the GPUs of a machine are connected."""

import re
from collections.abc import Mapping

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU(\d+)")

# Indices of nvidia-smi to a word of the matrix: NV18 for 18 NVLinks, PIX, PXB, PHB, NODE, SYS.
Connections = Mapping[tuple[int, int], str]


def parse_topology(text: str) -> Connections:
    """The connection of each ordered pair; empty if the text has no matrix."""
    lines = [_ESCAPE.sub("", line).split() for line in text.splitlines()]
    columns: list[int] = []
    connections: dict[tuple[int, int], str] = {}
    for words in lines:
        if not columns:
            columns = _header(words)
        elif words and (row := _GPU.fullmatch(words[0])):
            # Further columns (network cards, CPU affinity) follow those of the GPUs.
            for column, word in zip(columns, words[1:], strict=False):
                if word != "X":
                    connections[int(row[1]), column] = word
    return connections


def _header(words: list[str]) -> list[int]:
    """The GPUs that a header's words begin with; empty for another line."""
    columns = []
    for word in words:
        gpu = _GPU.fullmatch(word)
        if gpu is None:
            break
        columns.append(int(gpu[1]))
    return columns


def is_nvlink(connection: str | None) -> bool:
    """Whether the word stands for NVLinks."""
    return connection is not None and re.fullmatch(r"NV\d+", connection) is not None
