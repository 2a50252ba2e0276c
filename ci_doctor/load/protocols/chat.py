# SPDX-License-Identifier: Apache-2.0
"""Pure. `/v1/chat/completions`: `choices` with a `message`. It is read as a completion is."""

from ci_doctor.load.protocols.completions import has_choices, read
from ci_doctor.load.protocols.protocol import Protocol
from ci_doctor.load.streamed import folded

CHAT = Protocol(
    name="chat",
    paths=("/chat/completions",),
    read=read,
    recognises=has_choices,
    fold=folded,
    sampled=True,
)
