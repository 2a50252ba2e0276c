# SPDX-License-Identifier: Apache-2.0
"""Cases of a test, each under the name that its id is."""

from collections.abc import Mapping

import pytest


def cases(names: str | tuple[str, ...], rows: Mapping[str, object]) -> pytest.MarkDecorator:
    """`pytest.mark.parametrize` with the values of `rows`, and their keys as ids."""
    return pytest.mark.parametrize(names, list(rows.values()), ids=list(rows))
