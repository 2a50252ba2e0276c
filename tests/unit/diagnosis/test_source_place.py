# SPDX-License-Identifier: Apache-2.0
"""The place in source code that a line names, in the forms of the tools."""

import pytest

from ci_doctor.diagnosis.source_place import source_place
from ci_doctor.model.facts.diagnose import SourcePlace


def place(file: str, line: int | None = None, column: int | None = None) -> SourcePlace:
    return SourcePlace(file=file, line=line, column=column)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("src/app.c:12:5: error: expected ';' before '}' token", place("src/app.c", 12, 5)),
        ("./main.go:7:2: undefined: Foo", place("main.go", 7, 2)),
        ("src/a.ts(12,5): error TS2322: Type 'string' is not assignable", place("src/a.ts", 12, 5)),
        (
            "[ERROR] /builds/team/app/src/main/java/App.java:[12,5] cannot find symbol",
            place("src/main/java/App.java", 12, 5),
        ),
        ("App.java:12: error: ';' expected", place("App.java", 12)),
        ("tests/test_app.py:31: AssertionError", place("tests/test_app.py", 31)),
        (
            "pkg/mod.py:4: error: Incompatible return value type  [return-value]",
            place("pkg/mod.py", 4),
        ),
        ("FAILED tests/test_app.py::test_total - assert 2 == 3", place("tests/test_app.py")),
        (
            "e: file:///home/runner/work/app/app/src/Main.kt:3:9 Unresolved",
            place("src/Main.kt", 3, 9),
        ),
        (
            "PHP Fatal error: Uncaught Error in /srv/app/index.php on line 9",
            place("/srv/app/index.php", 9),
        ),
        ("In deploy.sh line 3:", place("deploy.sh", 3)),
        ("\tat com.acme.App.main(App.java:12)", place("App.java", 12)),
        (
            "/home/runner/work/app/app/lib/a.rb:3:in `call': no (NoMethodError)",
            place("lib/a.rb", 3),
        ),
        (
            r"C:\work\app\main.cs(10,20): error CS1002: ; expected",
            place("C:/work/app/main.cs", 10, 20),
        ),
    ],
)
def test_a_tools_own_form_is_read(line: str, expected: SourcePlace) -> None:
    assert source_place(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "dial tcp registry.example.com:443: i/o timeout",
        "connect to 10.0.0.7:8000 failed",
        "see build.log:12 for details",
        "12:30:01 ERROR it broke",
        "RuntimeError: CUDA error: out of memory",
        "a.c:0: in a macro"[:3],
        "x" * 70_000,
    ],
)
def test_what_is_no_source_is_no_place(line: str) -> None:
    assert source_place(line) is None


def test_the_innermost_frame_of_the_project_counts() -> None:
    before = [
        "Traceback (most recent call last):",
        '  File "/workspace/app/serve.py", line 40, in main',
        "    run()",
        '  File "/workspace/app/engine.py", line 7, in run',
        "    json.loads(text)",
        '  File "/usr/lib/python3.12/json/__init__.py", line 346, in loads',
        "    return _default_decoder.decode(s)",
    ]

    assert source_place("ValueError: no JSON", before) == place("app/engine.py", 7)


def test_a_frame_of_another_story_does_not_count() -> None:
    before = ['  File "app/serve.py", line 40, in main', "    run()", "INFO all is well"]

    assert source_place("CUDA out of memory", before) is None


def test_rustc_names_the_place_below() -> None:
    after = ["  --> src/main.rs:7:5", "   |"]

    assert source_place("error[E0425]: cannot find value `x` in this scope", (), after) == place(
        "src/main.rs", 7, 5
    )
