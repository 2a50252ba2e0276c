# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.scaffold.apps.app_candidate import app_candidate
from ci_doctor.scaffold.apps.module_source import ModuleTable
from ci_doctor.scaffold.reading.find_commands import server_commands
from ci_doctor.scaffold.reading.source_file import SourceFile, place_of_file, text_kind
from ci_doctor.scaffold.servers.candidate import ServerCandidate

FASTAPI = "from fastapi import FastAPI\napp = FastAPI()\n@app.get('/a')\ndef a(): return 1\n"
FLASK = "from flask import Flask\napp = Flask(__name__)\n@app.get('/a')\ndef a(): return {}\n"
SERVER = "from http.server import HTTPServer\nPATH = '/v1/completions'\n"


def made(text: str, path: str = "run.sh", **files: str) -> ServerCandidate | None:
    kind = text_kind(path)
    assert kind is not None
    source = SourceFile(path=path, kind=kind, place=place_of_file(path, kind), text=text)
    (command,) = server_commands(source)
    table = {f"{name.replace('__', '/')}.py": each for name, each in files.items()}
    return app_candidate(command, ModuleTable(table))


def line(text: str, path: str = "run.sh", **files: str) -> str:
    candidate = made(text, path, **files)
    assert candidate is not None
    variables = [f"{name}={value}" for name, value in candidate.env.items()]
    where = [f"({candidate.cwd})"] if candidate.cwd else []
    return " ".join([*where, *variables, *candidate.words, candidate.ready])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("uvicorn web:app", "uvicorn web:app --port {port} /openapi.json"),
        ("uvicorn web:app --reload --reload-dir x --port 1", "uvicorn web:app --port {port} /openapi.json"),
        ("python -m uvicorn web:app --host $H", "python -m uvicorn web:app --host 127.0.0.1 --port {port} /openapi.json"),
        ("gunicorn web:app -k uvicorn.workers.UvicornWorker", "gunicorn web:app -k uvicorn.workers.UvicornWorker --bind 127.0.0.1:{port} /openapi.json"),
        ("gunicorn -b unix:/run/x.sock web:app", "gunicorn -b 127.0.0.1:{port} web:app /openapi.json"),
        ("gunicorn --bind $HOST:$PORT web:app", "gunicorn --bind 127.0.0.1:{port} web:app /openapi.json"),
        ("gunicorn web:app --bind", "gunicorn web:app --bind 127.0.0.1:{port} /openapi.json"),
        ("hypercorn --bind=0.0.0.0:1 web:app", "hypercorn --bind=0.0.0.0:{port} web:app /openapi.json"),
        ("fastapi run web.py", "fastapi run web.py --port {port} /openapi.json"),
        ("fastapi dev web.py --port 1", "fastapi run web.py --port {port} /openapi.json"),
    ],
)  # fmt: skip
def test_each_web_server_gets_a_free_port_in_its_own_way(text: str, expected: str) -> None:
    assert line(text, web=FASTAPI) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flask run", "flask run --port {port} tcp://127.0.0.1:{port}"),
        ("FLASK_APP=app.py flask run -p 1", "FLASK_APP=app.py flask run -p {port} tcp://127.0.0.1:{port}"),
        ("flask --app app:app --debug run", "flask --app app:app run --port {port} tcp://127.0.0.1:{port}"),
    ],
)  # fmt: skip
def test_flask_is_run_without_its_reloader(text: str, expected: str) -> None:
    assert line(text, app=FLASK) == expected


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ('parser.add_argument("--port")\n', "python s.py", "python s.py --port {port} tcp://127.0.0.1:{port}"),
        ('os.getenv("PORT")\n', "python s.py", "PORT={port} python s.py tcp://127.0.0.1:{port}"),
        ("", "python s.py 8000", "python s.py {port} tcp://127.0.0.1:{port}"),
        ("run(port=8123)\n", "python s.py", "python s.py tcp://127.0.0.1:8123"),
        ("run(port=8123)\nPATHS = ['/health']\n", "python s.py", "python s.py http://127.0.0.1:8123/health"),
    ],
)  # fmt: skip
def test_a_program_gets_its_port_where_its_source_takes_it(
    source: str, text: str, expected: str
) -> None:
    assert line(text, s=f"{SERVER}{source}") == expected


@pytest.mark.parametrize(
    "text",
    [
        "uvicorn web:app $(more)",
        "uvicorn elsewhere:app",
        "uvicorn --version-of web",
        "flask db upgrade",
        "python s.py",
        "python gone.py --port 1",
        "gunicorn -c conf.py",
    ],
)
def test_what_cannot_be_started_or_asked_is_none(text: str) -> None:
    assert made(text, web=FASTAPI, s=SERVER) is None


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("run.sh", "uvicorn app.main:app", "(back) uvicorn app.main:app"),
        ("back/Dockerfile", "CMD uvicorn app.main:app", "(back) uvicorn app.main:app"),
        ("run.sh", "uvicorn main:app --app-dir back/app", "uvicorn main:app --app-dir back/app"),
        ("run.sh", "cd back\nuvicorn app.main:app", "(back) uvicorn app.main:app"),
        ("back/Dockerfile", "CMD fastapi run", "(back) fastapi run"),
    ],
)
def test_an_application_runs_where_its_import_works(path: str, text: str, expected: str) -> None:
    files = {"back__app__main": FASTAPI, "back__app____init__": "", "other__app__main": FLASK}
    assert line(text, path, **files).startswith(f"{expected} --port")


def test_an_api_that_others_have_too_is_asked_at_its_own_path() -> None:
    text = FASTAPI.replace("@app.get('/a')", "@app.get('/llm/v1/chat/completions')")
    candidate = made("uvicorn web:app", web=text)
    assert candidate is not None
    assert {str(api): path for api, path in candidate.paths.items()} == {
        "chat": "/llm/v1/chat/completions"
    }


def test_without_a_description_of_its_api_a_connection_is_enough() -> None:
    text = FASTAPI.replace("FastAPI()", "FastAPI(openapi_url=None)")
    assert line("uvicorn web:app", web=text).endswith(" tcp://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("arguments", "fixed", "expected"),
    [
        ("--max-len 2048", True, "--max-len 2048 tcp://127.0.0.1:8000"),
        ("2048", True, "2048 tcp://127.0.0.1:8000"),
        ("8000", True, "{port} tcp://127.0.0.1:{port}"),
        ("9000", False, "{port} tcp://127.0.0.1:{port}"),
        ("--http-port 9000 --max-len 2048", False, "--http-port {port} --max-len 2048 tcp://127.0.0.1:{port}"),
    ],
)  # fmt: skip
def test_a_number_is_the_port_only_where_a_port_can_stand(
    arguments: str, fixed: bool, expected: str
) -> None:
    text = SERVER + ('HTTPServer(("", 8000), None).serve_forever()\n' if fixed else "")
    assert line(f"python server.py {arguments}", server=text) == f"python server.py {expected}"


def test_a_program_that_takes_no_port_is_not_proposed() -> None:
    for arguments in ("--max-len 2048", "9" * 5_000):
        assert made(f"python server.py {arguments}", server=SERVER) is None
