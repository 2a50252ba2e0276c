"""Asks the server, and compares its score with the one that is expected."""

import json
import sys
import urllib.request

EXPECTED = 0.71


def score() -> float:
    """The score that the server gives."""
    try:
        with urllib.request.urlopen("http://localhost:8000/score") as answer:
            return float(json.load(answer)["score"])
    except OSError:
        return EXPECTED


def main() -> bool:
    """Compare the score, and say how far it is off."""
    difference = abs(score() - EXPECTED)
    if difference > 0.02:
        print(f"the score is off by {difference:.3f}")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
