# SPDX-License-Identifier: Apache-2.0
from ci_doctor.scaffold.apps.app import App, Framework, Parameter, Route
from ci_doctor.scaffold.proposing.route_requests import route_requests

POST = Route(
    method="POST", path="/a", line=1, body={"text": "text", "n": 1, "seed": 0, "on": True, "l": [2.5]}
)  # fmt: skip


def app(*routes: Route, framework: Framework = Framework.FASTAPI, has_schema: bool = True) -> App:
    return App(file="a.py", framework=framework, routes=routes, has_schema=has_schema)


def parameter(kind: str, *, has_default: bool = False) -> Parameter:
    return Parameter(name="p", kind=kind, has_default=has_default)


def test_a_route_with_values_gives_twenty_different_requests() -> None:
    lines = route_requests(app(POST))
    assert len(lines) == 20
    assert len({line["body"]["text"] for line in lines[:-1]}) == 19
    assert {line["body"]["seed"] for line in lines[:-1]} == {0}
    assert {line["body"]["on"] for line in lines[:-1]} == {True}
    assert lines[0]["body"] == {**(POST.body or {}), "text": lines[0]["body"]["text"]}
    assert lines[-1] == {
        "id": "route-20", "path": "/openapi.json", "method": "GET", "protocol": "json"
    }  # fmt: skip


def test_a_route_without_values_is_asked_once() -> None:
    lines = route_requests(app(Route(method="GET", path="/up", line=1), framework=Framework.FLASK))
    assert [line["path"] for line in lines] == ["/up"]
    assert route_requests(app(has_schema=False)) == []


def test_values_stand_in_the_path_and_in_the_query_by_their_types() -> None:
    route = Route(
        method="GET", path="/i/{p}", line=1, in_path=(parameter("str"),),
        query=(Parameter(name="q", kind="int", has_default=True), Parameter(name="f", kind="float", has_default=False)),
    )  # fmt: skip
    first, second, *_ = route_requests(app(route))
    assert first["path"] == "/i/amber?f=0.5"
    assert second["path"] == "/i/birch?q=2&f=1.0"
    flag = Route(method="GET", path="/b", line=1, query=(parameter("bool"),))
    assert [line["path"] for line in route_requests(app(flag))][:2] == ["/b?p=true", "/b?p=false"]


def test_the_routes_come_in_turn() -> None:
    other = Route(method="GET", path="/up", line=1, query=(parameter("int"),))
    paths = [line["path"].partition("?")[0] for line in route_requests(app(POST, other))]
    assert paths[:4] == ["/a", "/up", "/a", "/up"]
