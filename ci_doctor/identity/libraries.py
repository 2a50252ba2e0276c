# SPDX-License-Identifier: Apache-2.0
"""Reads site directories: the versions of the libraries that decide bits, as they are installed. Nothing is imported."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ci_doctor.identity.identity import Identity

# The distributions whose code computes, schedules or tokenizes. A name that ends in `*` stands for a family.
NAMES: tuple[str, ...] = (
    *(
        "torch",
        "triton",
        "triton-kernels",
        "pytorch-triton",
        "torchao",
        "torchvision",
        "numpy",
        "scipy",
        "intel-openmp",
    ),
    *(
        "mkl",
        "vllm",
        "sglang",
        "sgl-kernel",
        "sglang-kernel",
        "lmcache",
        "flashinfer-python",
        "flashinfer-cubin",
    ),
    *(
        "flashinfer-jit-cache",
        "flash-attn",
        "flash-attn-3",
        "flash-attn-4",
        "vllm-flash-attn",
        "flash-mla",
        "deep-gemm",
    ),
    *(
        "deep-ep",
        "xformers",
        "transformers",
        "tokenizers",
        "safetensors",
        "sentencepiece",
        "tiktoken",
        "mistral-common",
    ),
    *(
        "compressed-tensors",
        "bitsandbytes",
        "auto-gptq",
        "autoawq",
        "llguidance",
        "xgrammar",
        "outlines",
        "outlines-core",
    ),
    *(
        "quack-kernels",
        "tilelang",
        "apache-tvm-ffi",
        "mamba-ssm",
        "causal-conv1d",
        "transformer-engine",
        "tensorrt-llm",
    ),
    *(
        "onnxruntime",
        "onnxruntime-gpu",
        "jax",
        "jaxlib",
        "tensorflow",
        "llama-cpp-python",
        "accelerate",
        "numba",
        "aiter",
    ),
    *(
        "amd-aiter",
        "intel-extension-for-pytorch",
        "openvino",
        "cupy-cuda12x",
        "cupy-cuda13x",
        "ray",
        "nvidia-*",
        "cuda-*",
    ),
)
_EXACT = frozenset(name for name in NAMES if not name.endswith("*"))
_FAMILIES = tuple(name[:-1] for name in NAMES if name.endswith("*"))
# Part of no computation: NVIDIA's management library speaks to the driver only.
_NOT = frozenset({"nvidia-ml-py"})
_LIMIT = 8 << 20


class Installed(Struct, frozen=True, kw_only=True):
    """One distribution; `folder` is its dist-info."""

    name: str
    version: str
    folder: Path


def normal(name: str) -> str:
    """A distribution's name as it is compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def matters(name: str) -> bool:
    """Whether a distribution with this normal name decides bits."""
    return (name in _EXACT or name.startswith(_FAMILIES)) and name not in _NOT


def installed(directories: Iterable[Path]) -> Iterator[Installed]:
    """Every distribution that matters, in the order in which Python finds them."""
    for directory in directories:
        try:
            names = sorted(path.name for path in directory.iterdir())
        except OSError:
            continue
        for name in names:
            stem, _, kind = name.rpartition(".")
            if kind in {"dist-info", "egg-info"} and matters(normal(stem.partition("-")[0])):
                yield _read(directory / name, stem)


def _read(folder: Path, stem: str) -> Installed:
    """By its metadata, else by the name of its folder, where the version stands too."""
    headers: dict[str, str] = {}
    file = (
        folder
        if folder.is_file()
        else folder / ("METADATA" if folder.suffix == ".dist-info" else "PKG-INFO")
    )
    for line in _text(file).split("\n\n", 1)[0].splitlines():
        key, _, value = line.partition(":")
        headers.setdefault(key.lower(), value.strip())
    parts = stem.split("-")
    version = headers.get("version") or (parts[1] if len(parts) > 1 else "")
    return Installed(name=normal(headers.get("name") or parts[0]), version=version, folder=folder)


def libraries(directories: Iterable[Path]) -> Identity:
    """`torch` -> `2.9.0`; two of one name are both told, since which one counts is luck.

    A version that several builds may bear (a local or development one, or one not from an index) has the digest of the
    files that it installed, or the commit, beside it.
    """
    versions: dict[str, list[str]] = {}
    unknown: dict[str, str] = {}
    for found in installed(directories):
        if not found.version:
            unknown[found.name] = f"{found.folder} names no version"
        told, editable = _version(found)
        versions.setdefault(found.name, []).append(told)
        if editable:
            unknown[f"{found.name} (uncommitted changes)"] = (
                "an editable installation is not searched for them"
            )
    return Identity.of(
        {name: " and ".join(dict.fromkeys(told)) for name, told in versions.items()}, unknown
    )


def _version(found: Installed) -> tuple[str, bool]:
    origin = _origin(found.folder)
    if (origin.get("dir_info") or {}).get("editable"):
        source = Path(unquote(urlsplit(str(origin.get("url", ""))).path))
        commit = commit_of(source)
        return (
            f"{found.version}, editable, {f'commit {commit[:12]}' if commit else 'no commit'}",
            True,
        )
    commit = str((origin.get("vcs_info") or {}).get("commit_id") or "")
    if commit:
        return f"{found.version}, commit {commit[:12]}", False
    if (origin or "+" in found.version or "dev" in found.version) and (
        digest := _files(found.folder / "RECORD")
    ):
        return f"{found.version}, files {digest}", False
    return found.version, False


def _origin(folder: Path) -> dict[str, dict[str, object]]:
    """direct_url.json (PEP 610), where the installation is not from an index."""
    try:
        value = json.loads((folder / "direct_url.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _files(record: Path) -> str | None:
    """A digest over what RECORD says of the installed files, without those that differ from place to place."""
    lines = [
        line
        for line in _text(record, _LIMIT).splitlines()
        if "sha256=" in line and not line.startswith(("..", "/", '"')) and ".dist-info/" not in line
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:12] if lines else None


def commit_of(directory: Path) -> str | None:
    """The commit that is checked out in the repository around `directory`, read from git's own files; None without one."""
    for top in (directory, *directory.parents):
        git = top / ".git"
        if git.is_file():  # a worktree or a submodule
            git = top / _text(git).removeprefix("gitdir:").strip()
        if (git / "HEAD").is_file():
            return _head(git)
    return None


def _head(git: Path) -> str | None:
    head = _text(git / "HEAD").strip()
    if not head.startswith("ref:"):
        return head or None
    name = head.removeprefix("ref:").strip()
    shared = git / (_text(git / "commondir").strip() or ".")
    for place in (git, shared):
        if commit := _text(place / name).strip():
            return commit
    packed = re.search(
        rf"^([0-9a-f]{{40,64}}) {re.escape(name)}$",
        _text(shared / "packed-refs", _LIMIT),
        re.MULTILINE,
    )
    return packed[1] if packed else None


def _text(path: Path, limit: int = 1 << 18) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""
