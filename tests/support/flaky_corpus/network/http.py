"""A test asks a service over HTTP."""

import urllib.request


def test_asks() -> None:
    with urllib.request.urlopen("http://127.0.0.1:48000/", timeout=10) as answer:
        assert answer.status == 200
