# SPDX-License-Identifier: Apache-2.0
"""Pure. The names of the distributions that decide bits of an answer."""

import re

# The distributions whose code computes, schedules or tokenizes.
_TORCH = (
    "torch",
    "triton",
    "triton-kernels",
    "pytorch-triton",
    "torchao",
    "torchvision",
)
_ARRAYS = (
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
)
_ENGINES = (
    "vllm",
    "sglang",
    "lmcache",
    "tensorrt-llm",
    "llama-cpp-python",
    "ray",
)
_KERNELS = (
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
)
_FLASH = (
    "flashinfer-python",
    "flashinfer-cubin",
    "flashinfer-jit-cache",
    "flash-attn",
    "flash-attn-3",
    "flash-attn-4",
    "vllm-flash-attn",
    "flash-mla",
)
_MODELS = (
    "transformers",
    "tokenizers",
    "safetensors",
    "sentencepiece",
    "tiktoken",
    "mistral-common",
    "accelerate",
)
_QUANTIZATION = (
    "compressed-tensors",
    "bitsandbytes",
    "auto-gptq",
    "autoawq",
)
_GRAMMARS = (
    "llguidance",
    "xgrammar",
    "outlines",
    "outlines-core",
)
_RUNTIMES = (
    "onnxruntime",
    "onnxruntime-gpu",
    "openvino",
    "intel-extension-for-pytorch",
)
_EXACT = frozenset(
    (
        *_TORCH,
        *_ARRAYS,
        *_ENGINES,
        *_KERNELS,
        *_FLASH,
        *_MODELS,
        *_QUANTIZATION,
        *_GRAMMARS,
        *_RUNTIMES,
    )
)
# All distributions with these beginnings.
_FAMILIES = (
    "nvidia-",
    "cuda-",
)
# Part of no computation: NVIDIA's management library talks to the driver only.
_IRRELEVANT = frozenset({"nvidia-ml-py"})


def normal(name: str) -> str:
    """A distribution's name in the form that is compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def matters(name: str) -> bool:
    """Whether a distribution with this normal name decides bits."""
    return (name in _EXACT or name.startswith(_FAMILIES)) and name not in _IRRELEVANT
