# SPDX-License-Identifier: Apache-2.0
"""Pure. Why vLLM chose another directory: two of its cache_key_factors.json, compared.

vLLM writes one into each directory of its torch.compile cache: `env` (its variables), and digests
of the configuration, the compiler and the traced code.
"""

import json
from collections.abc import Iterator

from ci_doctor.identity.identity import Difference, Identity, differences

FILE_NAME = "cache_key_factors.json"
_DEPTH = 20


def factor_differences(saved: bytes, here: bytes) -> tuple[Difference, ...]:
    """Every factor in which two files differ, saved -> here, such as `env.VLLM_USE_V1`.

    Raises ValueError if one of them is no JSON object.
    """
    return differences(_factors(saved), _factors(here))


def _factors(content: bytes) -> Identity:
    try:
        document = json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError(f"{FILE_NAME} holds no object")  # noqa: TRY004
    return Identity.of(dict(_flat("", document, _DEPTH)))


def _flat(front: str, value: object, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value and depth:
        for key, each in value.items():
            yield from _flat(f"{front}.{key}" if front else str(key), each, depth - 1)
    else:
        yield front, value if isinstance(value, str) else json.dumps(value, sort_keys=True)
