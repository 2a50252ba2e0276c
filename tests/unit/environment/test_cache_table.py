# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.environment.cache_table import BY_VARIABLE, cache_directory


@pytest.mark.parametrize(
    ("variable", "environ", "directory"),
    [
        ("TRITON_CACHE_DIR", {"HOME": "/h"}, "/h/.triton/cache"),
        ("TRITON_CACHE_DIR", {"HOME": "/h", "TRITON_HOME": "/t"}, "/t/.triton/cache"),
        ("TRITON_CACHE_DIR", {"HOME": "/h", "TRITON_CACHE_DIR": "/c"}, "/c"),
        ("VLLM_CACHE_ROOT", {"HOME": "/h"}, "/h/.cache/vllm"),
        ("VLLM_CACHE_ROOT", {"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/x/vllm"),
        ("TORCHINDUCTOR_CACHE_DIR", {"USER": "a:b"}, "/tmp/torchinductor_a_b"),
        ("TORCHINDUCTOR_CACHE_DIR", {"LOGNAME": "a", "TMPDIR": "/s"}, "/s/torchinductor_a"),
        ("FLASHINFER_WORKSPACE_BASE", {"HOME": "/h"}, "/h/.cache/flashinfer"),
        ("FLASHINFER_WORKSPACE_BASE", {"FLASHINFER_WORKSPACE_BASE": "/b"}, "/b/.cache/flashinfer"),
        ("CUTE_DSL_CACHE_DIR", {"USER": "ci"}, "/tmp/ci/cutlass_python_cache"),
    ],
)
def test_a_cache_lies_where_its_variable_or_its_default_says(
    variable: str, environ: dict[str, str], directory: str
) -> None:
    assert cache_directory(BY_VARIABLE[variable], environ) == Path(directory)


def test_without_a_home_directory_or_a_default_the_place_is_unknown() -> None:
    assert cache_directory(BY_VARIABLE["TRITON_CACHE_DIR"], {}) is None
    assert cache_directory(BY_VARIABLE["NUMBA_CACHE_DIR"], {"HOME": "/h"}) is None
