# SPDX-License-Identifier: Apache-2.0
"""Reads site directories: the versions of the libraries that decide bits, as they are installed.

Nothing is imported.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from ci_doctor.identity.identity import Identity
from ci_doctor.machine.packages import Origin, Package, installed, record_digest

# The distributions whose code computes, schedules or tokenizes.
_EXACT = frozenset(
    {
        # torch and what comes with it
        "torch",
        "triton",
        "triton-kernels",
        "pytorch-triton",
        "torchao",
        "torchvision",
        # arrays and numbers
        "numpy",
        "scipy",
        "numba",
        "intel-openmp",
        "mkl",
        "jax",
        "jaxlib",
        "tensorflow",
        "cupy-cuda12x",
        "cupy-cuda13x",
        # engines
        "vllm",
        "sglang",
        "lmcache",
        "tensorrt-llm",
        "llama-cpp-python",
        "ray",
        # kernels
        "sgl-kernel",
        "sglang-kernel",
        "deep-gemm",
        "deep-ep",
        "xformers",
        "quack-kernels",
        "tilelang",
        "mamba-ssm",
        "apache-tvm-ffi",
        "causal-conv1d",
        "transformer-engine",
        "aiter",
        "amd-aiter",
        # attention
        "flashinfer-python",
        "flashinfer-cubin",
        "flashinfer-jit-cache",
        "flash-attn",
        "flash-attn-3",
        "flash-attn-4",
        "vllm-flash-attn",
        "flash-mla",
        # models and tokenizers
        "transformers",
        "tokenizers",
        "safetensors",
        "sentencepiece",
        "tiktoken",
        "mistral-common",
        "accelerate",
        # quantization
        "compressed-tensors",
        "bitsandbytes",
        "auto-gptq",
        "autoawq",
        # grammars
        "llguidance",
        "xgrammar",
        "outlines",
        "outlines-core",
        # other runtimes
        "onnxruntime",
        "onnxruntime-gpu",
        "openvino",
        "intel-extension-for-pytorch",
    }
)
# All distributions with these beginnings.
_FAMILIES = (
    "nvidia-",
    "cuda-",
)
# Part of no computation: NVIDIA's management library talks to the driver only.
_IRRELEVANT = frozenset({"nvidia-ml-py"})
# Of packed-refs, which may name a hundred thousand references.
_LIMIT = 8 << 20


def matters(name: str) -> bool:
    """Whether a distribution with this normal name decides bits."""
    return (name in _EXACT or name.startswith(_FAMILIES)) and name not in _IRRELEVANT


def libraries(directories: Iterable[Path]) -> Identity:
    """`torch` -> `2.9.0`; of two with one name both are listed, since either may be imported.

    Several builds may have one version (a local or development one, or one not from an index). Such
    a version has the digest of the installed files, or the commit, beside it.
    """
    versions: dict[str, list[str]] = {}
    unknown: dict[str, str] = {}
    for package in installed(directories, matters):
        name = package.name
        if not package.version:
            unknown[name] = f"{package.folder} names no version"
        origin = package.origin
        versions.setdefault(name, []).append(_version(package, origin))
        if origin.is_editable:
            unknown[f"{name} (uncommitted changes)"] = (
                "an editable installation is not searched for them"
            )
    facts = {name: " and ".join(dict.fromkeys(texts)) for name, texts in versions.items()}
    return Identity.of(facts, unknown)


def _version(package: Package, origin: Origin) -> str:
    version = package.version
    if origin.is_editable:
        commit = None if origin.source is None else commit_of(origin.source)
        state = f"commit {commit[:12]}" if commit else "no commit"
        return f"{version}, editable, {state}"
    if origin.commit:
        return f"{version}, commit {origin.commit[:12]}"
    # Only one build has a version that is neither a local one nor one of a nightly.
    if "+" not in version and "dev" not in version and not origin:
        return version
    digest = record_digest(package.folder)
    return f"{version}, files {digest}" if digest else version


def commit_of(directory: Path) -> str | None:
    """The commit checked out around `directory`, from git's files; None without one."""
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
    # The refs of a worktree are those of the repository that it belongs to
    # (gitrepository-layout(5)).
    shared = git / (_text(git / "commondir").strip() or ".")
    for place in (git, shared):
        commit = _text(place / name).strip()
        if commit:
            return commit
    line = re.compile(rf"^([0-9a-f]{{40,64}}) {re.escape(name)}$", re.MULTILINE)
    packed = line.search(_text(shared / "packed-refs", _LIMIT))
    return packed[1] if packed else None


def _text(path: Path, limit: int = 1 << 18) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""
