# SPDX-License-Identifier: Apache-2.0
"""Which versions a specification means."""

import pytest
from packaging.version import Version

from ci_doctor.compat.index.published import PublishedFile, PublishedRelease
from ci_doctor.compat.index.version_choice import version_choice
from ci_doctor.errors import UsageError

VERSIONS = ("0.17.1", "0.18.0", "0.18.1", "0.19.0rc1", "0.19.1", "0.20.0")


def chosen(text: str) -> list[str]:
    file = PublishedFile(filename="", address="")
    published = [
        PublishedRelease(name="vllm", version=Version(each), file=file) for each in VERSIONS
    ]
    return [str(each.version) for each in version_choice(text).chosen(published)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm==0.1[89].*", ["0.18.0", "0.18.1", "0.19.1"]),
        ("vllm==0.1?.1", ["0.17.1", "0.18.1", "0.19.1"]),
        ("vllm>=0.18, !=0.1[9].*", ["0.18.0", "0.18.1", "0.20.0"]),
        ("vllm==0.18.*", ["0.18.0", "0.18.1"]),
        ("vllm[all]>=0.20", ["0.20.0"]),
        ("vllm==0.19.0rc1", ["0.19.0rc1"]),
        ("vllm", ["0.17.1", "0.18.0", "0.18.1", "0.19.1", "0.20.0"]),
    ],
)
def test_specifiers_and_globs_choose_versions(text: str, expected: list[str]) -> None:
    assert chosen(text) == expected


@pytest.mark.parametrize("text", ["/no/such/path", "vllm>>1", "vllm=1", "==1"])
def test_what_is_no_specification_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        version_choice(text)
