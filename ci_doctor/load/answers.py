# SPDX-License-Identifier: Apache-2.0
"""Pure. The body of a 200 response as an answer, by the protocol of its request."""

from ci_doctor.load.canonical import Canonical, parse_value
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.protocols.completions import COMPLETIONS
from ci_doctor.load.protocols.protocol import Protocol
from ci_doctor.load.protocols.table import BY_NAME, of_answer, of_path
from ci_doctor.load.requests import Request


def protocol_of(request: Request) -> Protocol:
    """The protocol that a request names, or that of its path.

    A path that no protocol serves is read as a completion's: `read_requests` refuses it, so only
    requests that were made by hand have one.
    """
    if request.protocol is not None:
        return BY_NAME[request.protocol]
    return of_path(request.path) or COMPLETIONS


def read_answer(request: Request, body: bytes, *, streamed: bool) -> Canonical:
    """The answer to `request`. Raises NotAnAnswerError if `body` is no whole answer."""
    protocol = protocol_of(request)
    if not streamed:
        return protocol.read(parse_value(body), request.body)
    if protocol.fold is None:
        raise NotAnAnswerError(f"a stream, and {protocol.name} answers are never streamed")
    return protocol.read(protocol.fold(body), request.body)


def read_collected(body: bytes) -> Canonical:
    """An answer whose request is not known, by its shape. Raises NotAnAnswerError."""
    value = parse_value(body)
    protocol = of_answer(value) or COMPLETIONS
    return protocol.read(value, None)
