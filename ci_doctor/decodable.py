# SPDX-License-Identifier: Apache-2.0
"""Pure. Makes a type known to msgspec before anything is decoded into it, by one thread at a time.

msgspec 0.22 attaches what it knows of a Struct to its class before that is complete. Two threads
that decode into one class for the first time can end the process by SIGSEGV.
"""

import threading
from typing import Any, TypeVar

import msgspec

Kind = TypeVar("Kind")

_LOCK = threading.Lock()
_KNOWN: set[Any] = set()


def decodable(kind: Kind) -> Kind:
    """`kind`, a type or a union of types, for msgspec to decode or convert into from any thread."""
    if kind not in _KNOWN:
        with _LOCK:
            # Of all forms, this one takes each type that another one takes.
            msgspec.msgpack.Decoder(kind)
            _KNOWN.add(kind)
    return kind
