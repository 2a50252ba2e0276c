# SPDX-License-Identifier: Apache-2.0
"""Pure. The protocols in one table, and which one reads an answer."""

from typing import Any

from ci_doctor.load.protocols.chat import CHAT
from ci_doctor.load.protocols.classify import CLASSIFY
from ci_doctor.load.protocols.completions import COMPLETIONS
from ci_doctor.load.protocols.embeddings import EMBEDDINGS
from ci_doctor.load.protocols.generate import GENERATE
from ci_doctor.load.protocols.json_value import JSON_VALUE
from ci_doctor.load.protocols.protocol import Protocol
from ci_doctor.load.protocols.rerank import RERANK
from ci_doctor.load.protocols.responses import RESPONSES
from ci_doctor.load.protocols.score import SCORE

# The first one with a matching path counts: `/chat/completions` ends like `/completions`.
PROTOCOLS = (
    CHAT,
    COMPLETIONS,
    RESPONSES,
    EMBEDDINGS,
    CLASSIFY,
    SCORE,
    RERANK,
    GENERATE,
    JSON_VALUE,
)
BY_NAME = {each.name: each for each in PROTOCOLS}
# For a hint: the usual path of each.
USUAL_PATHS = tuple(f"/v1{each.paths[0]}" for each in PROTOCOLS if each.paths)


def of_path(path: str) -> Protocol | None:
    """The protocol of the endpoint at a URL's path, query included; None if no one knows it.

    What stands before the ending is a server's own: `/v1`, or the prefix of a proxy.
    """
    place, _, _ = path.partition("?")
    place = place.rstrip("/")
    for protocol in PROTOCOLS:
        if place.endswith(protocol.paths):
            return protocol
    return None


def of_answer(value: Any) -> Protocol | None:
    """The protocol of a parsed response whose request is not known; None if no one knows it."""
    for protocol in PROTOCOLS:
        if protocol.recognises(value):
            return protocol
    return None
