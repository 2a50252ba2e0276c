# SPDX-License-Identifier: Apache-2.0
"""Pure. Any JSON of a server's own: the whole value is compared, whatever it means.

A request must name it (`"protocol": "json"`), because no path tells that an answer may be anything.
"""

from typing import Any

from ci_doctor.load.canonical import Canonical, encode
from ci_doctor.load.choice_answers import canonicalise_value
from ci_doctor.load.protocols.protocol import Protocol, RequestBody


def read(value: Any, _body: RequestBody) -> Canonical:
    """The value as one text, with the keys of its objects in order; numbers as they are written."""
    text = encode(value).decode("ascii")
    return canonicalise_value({"choices": [{"index": 0, "text": text}]})


def _recognises(_value: Any) -> bool:
    """Never: every value would fit, and a broken completion would pass as an answer."""
    return False


JSON_VALUE = Protocol(name="json", paths=(), read=read, recognises=_recognises, prompted=False)
