# SPDX-License-Identifier: Apache-2.0
"""Pure. Parses sizes of the configuration: `64MiB`. `render.formatting` writes them."""

import re

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TB": 10**12,
    "TIB": 2**40,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)


def parse_size(value: str | int) -> int:
    """Bytes: a whole number, or text such as "64MiB", "1.5 GB".

    Raises ValueError with a sentence for the user.
    """
    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"{value} is no size")
        return value
    match = _SIZE.fullmatch(value.strip())
    unit = match[2].upper() if match is not None else ""
    if match is None or unit not in _UNITS:
        raise ValueError(f'"{value}" is no size; write for example "64MiB"')
    return int(float(match[1]) * _UNITS[unit])
