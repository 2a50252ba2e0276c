# SPDX-License-Identifier: Apache-2.0
"""Pure. What a protocol is: how the answers of one kind of endpoint become comparable."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ci_doctor.load.canonical import Canonical

# The body of a request; None if it is not known, as with collected answers.
RequestBody = Mapping[str, Any] | None


class Protocol(Struct, frozen=True, kw_only=True):
    """`paths` are the endings of the paths that it serves, `/v1` and the like left out.

    `read` makes the canonical form of a parsed 200 response and raises NotAnAnswerError if it is
    no whole answer. `fold` makes one such response of the body of a stream, and raises the same;
    None: its answers are never streamed. `recognises` tells its responses from those of others.
    `sampled`: the model draws tokens, so that `temperature` matters. `prompted`: a request holds a
    prompt, and its answer depends on it.
    """

    name: str
    paths: tuple[str, ...]
    read: Callable[[Any, RequestBody], Canonical]
    recognises: Callable[[Any], bool]
    fold: Callable[[bytes], Any] | None = None
    sampled: bool = False
    prompted: bool = True
