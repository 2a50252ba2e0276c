"""A page becomes the steps that a reader takes."""

import pytest

from tests.support.page_steps import (
    ChangedFile,
    Commands,
    WrittenFile,
    first_missing_line,
    steps_of,
)

PAGE = """
Write this, `a.py`:

<!-- a mark -->
```python
x = 1
```

Change `a.py`:

```diff
-x = 1
```

```sh
python a.py
```

It prints:

```text
exit code 3
```
"""


def test_files_changes_and_commands_come_in_the_order_of_the_page() -> None:
    assert steps_of(PAGE) == [
        WrittenFile("a.py", "x = 1\n"),
        ChangedFile("-x = 1\n"),
        Commands("python a.py\n", "exit code 3\n"),
    ]


def test_a_block_that_no_test_runs_has_a_reason() -> None:
    page = "<!-- not run: it needs a GPU -->\n```sh\nnvidia-smi\n```\n"

    assert steps_of(page) == [Commands("nvidia-smi\n", not_run="it needs a GPU")]


def test_the_status_is_that_of_the_shown_output() -> None:
    assert Commands("ls\n", "text\nexit code 3\n").expected_status == 3
    assert Commands("ls\n").expected_status == 0


def test_a_block_without_a_meaning_is_an_error() -> None:
    with pytest.raises(ValueError, match="'toml'"):
        steps_of("No name.\n\n```toml\nx = 1\n```\n")


@pytest.mark.parametrize(
    ("expected", "missing"),
    [
        pytest.param("one\ntwo 9 s\n", None, id="times-are-not-compared"),
        pytest.param("one\n…\nthree\n", None, id="lines-left-out"),
        pytest.param("two 1.5 s\n", None, id="from-the-middle"),
        pytest.param("one\nthree\n", "three", id="a-line-left-out-unmarked"),
        pytest.param("two 1 s\none\n", "one", id="another-order"),
        pytest.param("four\n", "four", id="no-such-line"),
    ],
)
def test_the_first_line_that_is_not_printed_is_named(expected: str, missing: str | None) -> None:
    assert first_missing_line(expected, "one\ntwo 0.1 s\nthree\n") == missing
