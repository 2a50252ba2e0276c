# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.scaffold.apps.app import App, Framework
from ci_doctor.scaffold.apps.module_source import ModuleTable
from ci_doctor.scaffold.apps.source_app import app_in
from ci_doctor.scaffold.proposing.route_requests import route_requests

MODELS = """\
from enum import Enum
from typing import Literal, Optional
from pydantic import BaseModel, Field


class Kind(Enum):
    A = "a"


class Above(BaseModel):
    seed: int = 5


class Inner(BaseModel):
    size: float
    tags: list[str]


class Body(Above):
    text: str
    kind: Kind
    way: Literal["x", "y"]
    inner: Inner
    maybe: Optional[int] = None
    default: int = Field(3)
    required: bool = Field(..., description="x")
    free: dict[str, int]
    quoted: "str | None"
"""
HEAD = "from fastapi import FastAPI, APIRouter, Depends, Query, Request, Body as B\nfrom models import Body\napp = FastAPI()\n"


def app(text: str, variable: str | None = None, **others: str) -> App:
    files = {f"{name.replace('__', '/')}.py": each for name, each in others.items()}
    found = app_in(
        "main.py", variable, ModuleTable({"main.py": text, "models.py": MODELS, **files})
    )
    assert found is not None
    return found


def routes(text: str, **others: str) -> list[tuple[str, str]]:
    return [(route.method, route.path) for route in app(f"{HEAD}{text}", **others).routes]


def test_the_body_of_a_post_is_an_example_of_its_model() -> None:
    found = app(f'{HEAD}@app.post("/x")\ndef x(body: Body): return body\n')
    (route,) = found.routes
    assert route.body == {
        "seed": 0,
        "text": "text",
        "kind": "a",
        "way": "x",
        "inner": {"size": 1.0, "tags": ["text"]},
        "required": True,
        "free": {},
        "quoted": "text",
    }


def test_parameters_of_a_get_are_in_the_query_or_in_the_path() -> None:
    found = app(
        f'{HEAD}@app.get("/a/{{n}}")\nasync def a(n: int, q: str, request: Request, '
        "limit: int | None = None, page: int = Query(...)): return 1\n"
    )
    (route,) = found.routes
    assert [each.name for each in route.in_path] == ["n"]
    assert [(each.name, each.has_default) for each in route.query] == [
        ("q", False),
        ("limit", True),
        ("page", False),
    ]


def test_routes_that_the_source_does_not_explain_are_left_out_and_counted() -> None:
    text = HEAD
    for decorator, signature, body in (
        ('@app.get("/db")', "db: Session", "return 1"),
        ('@app.get("/user")', "user: str = Depends(who)", "return 1"),
        ('@app.post("/none")', "", "return 1"),
        ('@app.post("/unknown")', "body: Elsewhere", "return 1"),
        ('@app.post("/made", status_code=201)', "body: Body", "return 1"),
        ('@app.post("/made2", status_code=status.HTTP_202_ACCEPTED)', "body: Body", "return 1"),
        ('@app.get("/page")', "", "return HTMLResponse('x')"),
        ('@app.get("/now")', "", "return datetime.now()"),
        ('@app.get("/item/{n}")', "n: int", "raise HTTPException(404)"),
        ('@app.get("/shutdown")', "", "return 1"),
        ('@app.get("/get-body")', "body: Body", "return 1"),
    ):
        text += f"{decorator}\ndef f({signature}):\n    {body}\n"
    found = app(text)
    assert (found.routes, found.hidden) == ((), 11)


def test_routers_are_followed_through_imports_with_their_prefixes() -> None:
    api = 'from fastapi import APIRouter\nfrom api import items\nrouter = APIRouter(prefix="/api")\nrouter.include_router(items.router, prefix="/items")\n'
    items = 'from fastapi import APIRouter\nrouter = APIRouter()\n@router.get("/all")\ndef all(): return []\n'
    text = "from api.top import router\napp.include_router(router, prefix=settings.VERSION)\n"
    settings = 'VERSION = "/v1"\n'
    found = routes(text, api__top=api, api__items=items, api____init__="", settings=settings)
    assert found == [("GET", "/v1/api/items/all")]


def test_a_prefix_that_two_places_set_is_not_guessed() -> None:
    text = "r = APIRouter()\n@r.get('/a')\ndef a(): return 1\napp.include_router(r, prefix=s.P)\n"
    assert routes(text, one='P = "/1"\n') == [("GET", "/1/a")]
    assert routes(text, one='P = "/1"\n', two='P = "/2"\n') == []


def test_flask_routes_are_those_that_return_json() -> None:
    found = app(
        "from flask import Flask, jsonify\napp = Flask(__name__)\n"
        "@app.route('/a')\ndef a(): return jsonify(x=1)\n"
        "@app.get('/b/<int:n>')\ndef b(n): return {'n': n}\n"
        "@app.route('/c', methods=['POST'])\ndef c(): return {}\n"
        "@app.get('/d')\ndef d(): return 'text'\n"
    )
    assert found.framework is Framework.FLASK
    assert [route.path for route in found.routes] == ["/a", "/b/{n}"]


def test_a_factory_and_an_application_behind_an_import_are_read_where_they_are_made() -> None:
    made = f"{HEAD}@app.get('/a')\ndef a(): return 1\n"
    factory = "from fastapi import FastAPI\ndef create():\n    app = FastAPI()\n    return app\n"
    assert app(factory, "create").is_factory
    assert app("from web import app\n", "app", web=made).file == "web.py"
    assert app("from web import make\napp = make()\n", "app", web=made).file == "web.py"


def test_what_a_program_says_of_its_port_and_its_model_is_known() -> None:
    own = app(
        'from http.server import HTTPServer\nimport os\nMODEL = "tiny"\nPATH = "/v1/completions"\n'
        'port = int(os.environ.get("SERVER_PORT", "1"))\nHTTPServer(("", 9000), None).serve_forever()\n'
    )
    assert (own.framework, own.model) == (Framework.OTHER, "tiny")
    assert (own.port_variable, own.fixed_port, own.is_run) == ("SERVER_PORT", 9000, True)
    assert own.paths == ("/v1/completions",)


def test_a_file_that_is_no_python_or_no_server_is_no_application() -> None:
    for text in ("FastAPI(", "def f(: FastAPI()", "print(1)"):
        assert app_in("main.py", None, ModuleTable({"main.py": text})) is None
    assert app_in("main.py", "app", ModuleTable({"main.py": "x = 1\n"})) is None
    assert app_in("gone.py", None, ModuleTable({})) is None


@given(st.text(alphabet="@app.get('/x')\ndef :=FastAPI()int,[]", max_size=120))
def test_no_source_is_an_error(text: str) -> None:
    app_in("main.py", "app", ModuleTable({"main.py": f"{HEAD}{text}"}))


@pytest.mark.parametrize(
    "text",
    [
        'class Body(BaseModel):\n    mode: Literal[b"a"]\n',
        "class Body(BaseModel):\n    mode: Literal[...]\n",
        'class Mode(Enum):\n    A = b"x"\nclass Body(BaseModel):\n    mode: Mode\n',
        "class Mode(Enum):\n    A = 1e999\nclass Body(BaseModel):\n    mode: Mode\n",
        f"class Mode(Enum):\n    A = 0x{'f' * 5_000}\nclass Body(BaseModel):\n    mode: Mode\n",
        f'class Body(BaseModel):\n    mode: "{"[" * 5_000}"\n',
    ],
)
def test_a_body_that_json_cannot_hold_hides_its_route(text: str) -> None:
    head = "from enum import Enum\nfrom pydantic import BaseModel\n"
    found = app(
        "from fastapi import FastAPI\nfrom bodies import Body\napp = FastAPI()\n"
        "@app.post('/x')\ndef x(body: Body): return body\n",
        bodies=f"{head}{text}",
    )
    assert (found.routes, found.hidden) == ((), 1)
    json.dumps(route_requests(found), allow_nan=False)
