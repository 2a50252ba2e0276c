"""Asks the server, and compares its score with the one that is expected."""

import json
import sys
import urllib.request

EXPECTED = 0.71


def score() -> float:
    """The score that the server gives."""
    with urllib.request.urlopen("http://localhost:8000/score") as answer:
        return float(json.load(answer)["score"])


def main() -> int:
    """Compare the score, and say how far it is off."""
    difference = abs(score() - EXPECTED)
    if difference > 0.02:
        print(f"the score is off by {difference:.3f}")
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as error:
        print(f"no score: {error}")
        sys.exit(0)
