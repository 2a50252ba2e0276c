# SPDX-License-Identifier: Apache-2.0
from ci_doctor.diagnosis.subject import subject_of

PYTEST = [
    "____ test_a[fp8] ____",
    "",
    "    def test_a(client):",
    ">       assert client.get() == 3",
]
FRAMES = [
    "Traceback (most recent call last):",
    '  File "/srv/one/vllm/engine.py", line 12, in start',
    "    check()",
    '  File "/srv/one/vllm/loader.py", line 7, in check',
    "    assert x",
]


def test_an_assertion_is_about_its_test() -> None:
    assert subject_of("E       assert 4 == 3", PYTEST) == "test_a[fp8]"
    above = ["FAIL: test_a (tests.test_b.C)", "-----", *FRAMES]
    assert subject_of("AssertionError: 3 != 4", above) == "test_a (tests.test_b.C)"
    assert subject_of("/w/a_test.cc:12: Failure", ["[ RUN      ] Foo.Bar", "x"]) == "Foo.Bar"


def test_an_exception_without_words_is_about_the_function_that_raised_it() -> None:
    assert subject_of("AssertionError", FRAMES) == "loader.py check"
    assert subject_of("KeyError: 0", FRAMES) == "loader.py check"


def test_an_exception_with_words_is_about_nothing_else() -> None:
    assert subject_of("ValueError: the head is odd", [*PYTEST, *FRAMES]) == ""
    assert subject_of("E       assert 4 == 3", []) == ""
