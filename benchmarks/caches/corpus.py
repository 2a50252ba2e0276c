# SPDX-License-Identifier: Apache-2.0
"""A directory that looks like a cache of compiled kernels, made of files of this machine.

Kernels of one project resemble each other. So each file is a slice of a pool of its extension, with
2 % of its blocks replaced by noise; its size is log-uniform between 5 and 200 KB. A directory holds
the five files of one kernel under the hash of its number, as Triton's cache does.
"""

import hashlib
import math
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 256
_POOL_BYTES = 3 << 20
_LEAST, _MOST = 5_000, 200_000
# Shared libraries stand for machine code; sources, which are text, for each stage of a compiler.
_EXTENSIONS = ("cubin", "so", "ptx", "llir", "ttgir")
_MACHINE_CODE = frozenset({"cubin", "so"})


def make_corpus(folder: Path, *, files: int, bytes_in_all: int, seed: int = 1) -> None:
    """`files` files in `folder` with about `bytes_in_all` bytes; the same for the same `seed`."""
    chance = random.Random(seed)
    pools = {extension: _pool(extension) for extension in _EXTENSIONS}
    scale = bytes_in_all / files / _mean()
    for number in range(files):
        extension = _EXTENSIONS[number % len(_EXTENSIONS)]
        kernel = hashlib.sha256(str(number // len(_EXTENSIONS)).encode()).hexdigest()[:52].upper()
        size = round(scale * math.exp(chance.uniform(math.log(_LEAST), math.log(_MOST))))
        path = folder / kernel / f"kernel.{extension}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_slice(pools[extension], size, chance))


def change(folder: Path, share: float, seed: int = 2) -> int:
    """Replace one block of noise in `share` of the files, written whole as a compiler does; how many."""
    chance = random.Random(seed)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    chosen = chance.sample(paths, round(len(paths) * share))
    for path in chosen:
        content = bytearray(path.read_bytes())
        at = chance.randrange(max(1, len(content) - _BLOCK))
        content[at : at + _BLOCK] = chance.randbytes(_BLOCK)
        path.write_bytes(content)
    return len(chosen)


def _slice(pool: bytes, size: int, chance: random.Random) -> bytes:
    begin = chance.randrange(max(1, len(pool) - size))
    content = bytearray(pool[begin : begin + size])
    for _ in range(len(content) // _BLOCK // 50):
        at = chance.randrange(len(content) - _BLOCK)
        content[at : at + _BLOCK] = chance.randbytes(_BLOCK)
    return bytes(content)


def _pool(extension: str) -> bytes:
    """The beginning of what this machine has of that kind; each extension has files of its own."""
    kind = ".so" if extension in _MACHINE_CODE else ".py"
    content = bytearray()
    rank = sorted(_EXTENSIONS).index(extension)
    for number, path in enumerate(_files(kind)):
        if number % len(_EXTENSIONS) == rank:
            content += path.read_bytes()[: _POOL_BYTES // 4]
        if len(content) >= _POOL_BYTES:
            break
    return bytes(content[:_POOL_BYTES])


def _files(ending: str) -> Iterator[Path]:
    for place in ("purelib", "stdlib"):
        for path in sorted(Path(sysconfig.get_path(place)).rglob(f"*{ending}")):
            if path.stat().st_size > 20_000:
                yield path


def _mean() -> float:
    return (_MOST - _LEAST) / math.log(_MOST / _LEAST)
