# SPDX-License-Identifier: Apache-2.0
"""Pure. Starter requests for the routes of a repository's own application."""

import json
from typing import Any, Final
from urllib.parse import quote, urlencode

from ci_doctor.scaffold.apps.app import App, Framework, Parameter, Route
from ci_doctor.scaffold.proposing.api_requests import COUNT, RequestLine
from ci_doctor.scaffold.proposing.prompts import ALONE, WORDS

# What the examples of a body hold where any text would do.
_ANY_TEXT: Final = "text"
# Values that decide how a model draws stay as they are.
_FIXED: Final = frozenset(("temperature", "seed", "max_tokens", "max_new_tokens"))


def route_requests(app: App) -> list[RequestLine]:
    """At most twenty requests, each route in turn with other values; fewer if its routes take none.

    FastAPI's description of the API comes last: a change of any route changes it.
    """
    most = COUNT
    schema = []
    if app.framework is Framework.FASTAPI and app.has_schema:
        schema = [{"path": "/openapi.json", "method": "GET", "protocol": "json"}]
        most -= 1
    made: dict[str, RequestLine] = {}
    for variant in range(COUNT):
        for route in app.routes:
            line = _request(route, variant)
            # Twice the same request shows nothing that a second pass does not show.
            made.setdefault(json.dumps(line, sort_keys=True), line)
    chosen = [*list(made.values())[:most], *schema]
    return [{"id": f"route-{at:02}", **line} for at, line in enumerate(chosen, start=1)]


def _request(route: Route, variant: int) -> RequestLine:
    path = route.path
    for parameter in route.in_path:
        value = quote(str(_value(parameter, variant)), safe="")
        path = path.replace(f"{{{parameter.name}}}", value).replace(
            f"{{{parameter.name}:path}}", value
        )
    query = {}
    for parameter in route.query:
        # The first request of a route has what it must have, the others what they may have, too.
        if variant or not parameter.has_default:
            query[parameter.name] = _value(parameter, variant)
    if query:
        path = f"{path}?{urlencode(query)}"
    if route.method == "GET":
        return {"path": path, "method": "GET", "protocol": "json"}
    return {"path": path, "protocol": "json", "body": _varied(route.body or {}, variant)}


def _value(parameter: Parameter, variant: int) -> Any:
    match parameter.kind:
        case "int":
            return variant + 1
        case "float":
            return (variant + 1) / 2
        case "bool":
            return str(variant % 2 == 0).lower()
        case _:
            return WORDS[variant % len(WORDS)]


def _varied(value: Any, variant: int) -> Any:
    """An example with other texts and numbers; the first variant is the example's own numbers."""
    if isinstance(value, dict):
        varied = {}
        for key, each in value.items():
            varied[key] = each if key in _FIXED else _varied(each, variant)
        return varied
    if isinstance(value, list):
        return [_varied(each, variant) for each in value]
    if value == _ANY_TEXT:
        prompts = (*ALONE, *WORDS)
        return prompts[variant % len(prompts)]
    if type(value) in {int, float}:
        return value + variant
    return value
