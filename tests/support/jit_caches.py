# SPDX-License-Identifier: Apache-2.0
"""Small stand-ins of JIT caches, in the formats that real wheels write.

The names, the layout and the group files are those that benchmarks/caches read from Triton 3.9.0
and torch 2.13.0; the content of compiled files is of no meaning.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

_PARTS = ("source", "ttir", "ttgir", "llir", "ptx", "cubin", "json")


def make_triton_cache(root: Path, kernels: Iterable[str]) -> list[Path]:
    """A directory per kernel and its files, with the group file that holds their absolute paths.

    The group files are given back.
    """
    groups = []
    for kernel in kernels:
        directory = root / _key(kernel)
        directory.mkdir(parents=True)
        for part in _PARTS:
            (directory / f"{kernel}.{part}").write_text(f"{part} of {kernel}")
        children = {f"{kernel}.{part}": str(directory / f"{kernel}.{part}") for part in _PARTS}
        group = directory / f"__grp__{kernel}.json"
        group.write_text(json.dumps({"child_paths": children}))
        groups.append(group)
    return groups


def triton_finds(root: Path, kernel: str) -> list[str] | None:
    """The files that Triton's FileCacheManager.get_group finds; None is a miss."""
    group = root / _key(kernel) / f"__grp__{kernel}.json"
    if not group.exists():
        return None
    paths = json.loads(group.read_text()).get("child_paths", {}).values()
    return [str(path) for path in paths] if all(Path(path).exists() for path in paths) else None


def make_inductor_cache(root: Path, graphs: Iterable[str]) -> None:
    """A graph's entries, its wrapper and its libraries, as TorchInductor lays them out on a CPU."""
    for graph in graphs:
        key = _key(graph).lower()
        for place in (f"fxgraph/{key[1:3]}/f{key}/{key}", f"aotautograd/a{key}/{key}"):
            _write(root / place, f"pickle of {graph}")
        _write(root / key[1:3] / f"c{key}.py", f"wrapper of {graph}")
        for suffix in ("main.cpp", "main.so"):
            _write(root / key[1:3] / f"c{key}.{suffix}", f"{suffix} of {graph}")
        _write(root / "locks" / f"c{key}.lock", "")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _key(name: str) -> str:
    digest = hashlib.sha256(name.encode()).digest()
    return base64.b32encode(digest).decode().rstrip("=")
