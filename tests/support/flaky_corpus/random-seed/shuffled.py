"""A test expects a shuffled list to differ from the sorted one."""

import random


def test_shuffled() -> None:
    names = ["apple", "pear", "plum"]
    random.shuffle(names)
    assert names != ["apple", "pear", "plum"]
