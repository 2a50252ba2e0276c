# SPDX-License-Identifier: Apache-2.0
"""Pure. Identities: the facts that decide whether a thing made elsewhere may be used here, and which variables are such facts."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Self

from msgspec import Struct, field

from ci_doctor.environment.determinism import AS_REQUESTED, effective
from ci_doctor.environment.determinism_table import BY_NAME

# --- identities: the facts that decide whether a thing made elsewhere may be used here ---

# Stands for a value in a text if one side has no such fact.
ABSENT = "absent"


class Difference(Struct, frozen=True, kw_only=True):
    """A fact in which two identities differ; `left` or `right` is None without such a fact.

    `knowledge`: one side does not know its value, so the two may or may not be equal. The text of
    that side is then `unknown: ` and the reason.
    """

    fact: str
    left: str | None
    right: str | None
    knowledge: bool = False

    def describe(self) -> str:
        """`driver 550.54 -> 560.35`, `flash-attn absent -> 2.8.3`."""
        return f"{self.fact} {self.left or ABSENT} -> {self.right or ABSENT}"


class Identity(Struct, frozen=True, kw_only=True):
    """`facts` decide; `unknown` maps a fact that could not be read to the reason.

    `noted` facts are recorded for people, and decide nothing. A known value is never empty: an
    empty one is written as for a shell, `''`.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    noted: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        facts: Mapping[str, str],
        unknown: Mapping[str, str] | None = None,
        noted: Mapping[str, str] | None = None,
    ) -> Self:
        """An identity with its names sorted. A name that is also unknown is unknown."""
        reasons = unknown or {}
        # Half a fact decides nothing.
        certain = {name: value or "''" for name, value in facts.items() if name not in reasons}
        notes = {name: value for name, value in (noted or {}).items() if value}
        return cls(facts=_sorted(certain), unknown=_sorted(reasons), noted=_sorted(notes))

    def also(self, other: "Identity") -> "Identity":
        """Both in one; of a name in both, `other`'s value."""
        return type(self).of(
            {**self.facts, **other.facts},
            {**self.unknown, **other.unknown},
            {**self.noted, **other.noted},
        )

    def rewritten(self, rewrite: Callable[[str], str], front: str = "") -> "Identity":
        """The same with `front` before every name, and every value and reason rewritten."""

        def changed(part: Mapping[str, str]) -> dict[str, str]:
            return {f"{front}{name}": rewrite(value) for name, value in part.items()}

        return type(self).of(changed(self.facts), changed(self.unknown), changed(self.noted))

    def digest(self) -> str:
        """SHA-256 in hex over the facts and the names of the unknown ones."""
        content = json.dumps([self.facts, sorted(self.unknown)], sort_keys=True)
        return hashlib.sha256(content.encode("ascii")).hexdigest()


def _sorted(facts: Mapping[str, str]) -> dict[str, str]:
    """By name, and encodable as UTF-8: a path or a variable may have bytes that are no text."""
    return {_encodable(name): _encodable(facts[name]) for name in sorted(facts)}


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def differences(left: Identity, right: Identity) -> tuple[Difference, ...]:
    """Every fact in which two identities differ, by name; none exactly if their digests are equal.

    A fact unknown to both is no difference; a fact that one of them knows is one of knowledge.
    """
    return tuple(
        Difference(
            fact=name,
            left=_text_of(name, left),
            right=_text_of(name, right),
            knowledge=name in left.unknown or name in right.unknown,
        )
        for name in sorted({*left.facts, *left.unknown, *right.facts, *right.unknown})
        if _differ(name, left, right)
    )


def _differ(name: str, left: Identity, right: Identity) -> bool:
    if (name in left.unknown) != (name in right.unknown):
        return True
    return left.facts.get(name) != right.facts.get(name)


def _text_of(name: str, identity: Identity) -> str | None:
    if name in identity.unknown:
        return f"unknown: {identity.unknown[name]}"
    return identity.facts.get(name)


# --- which variables of a server's environment are facts of its identity, and their effect ---

# Of engines, of torch and Triton, of the CPU, of the GPU and of ROCm.
PREFIXES = (
    *("VLLM_", "SGLANG_", "SGL_", "LMCACHE_", "FLASHINFER_", "DG_", "TF_", "JAX_", "XLA_"),
    *("TRITON_", "TORCH", "PYTORCH_", "ATEN_", "NVTE_"),
    *("OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "PYTHONHASHSEED"),
    *("CUBLAS", "CUDNN_", "NCCL_", "NVIDIA_TF32", "CUDA_LAUNCH_BLOCKING", "HCCL_"),
    *("HIPBLAS", "ROCBLAS_", "RCCL_", "MIOPEN_"),
)
# Places, addresses, logging and secrets: none of these decides a bit of an answer.
_LEFT_OUT = re.compile(
    r"(?:^|_)(?:DIR|DIRECTORY|ROOT|PATH|BASE|HOME|CACHE|HOST|PORT|IP|URL|ADDR|KEY|TOKEN|SECRET"
    r"|PASSWORD|LOG|LOGGING|LOGS|TIMEOUT|TRACE|TRACES|USAGE|STATS|PROFILER|IFNAME|DEBUG|WARN"
    r"|FILE|UUID|ID)(?:_|$)"
)


def variables(environ: Mapping[str, str]) -> Identity:
    """`env.NAME` for what may decide bits, with a note if the effective value is known to differ.

    A variable that does nothing is noted only. What a process sets itself cannot be observed from
    outside.
    """
    facts: dict[str, str] = {}
    noted: dict[str, str] = {}
    for name, value in environ.items():
        if not is_fact(name):
            continue
        row = BY_NAME.get(name)
        effect = effective(row, environ) if row else AS_REQUESTED
        text = value if effect == AS_REQUESTED else f"{value} ({effect})"
        if row is not None and row.no_effect:
            noted[f"env.{name}"] = text
        else:
            facts[f"env.{name}"] = text
    return Identity.of(facts, {}, noted)


def is_fact(name: str) -> bool:
    """Whether a variable with this name may decide bits."""
    return (name in BY_NAME or name.startswith(PREFIXES)) and not _LEFT_OUT.search(name)
