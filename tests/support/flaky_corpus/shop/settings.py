"""Settings that live as long as the process."""

DEBUG = False
CURRENCY = "EUR"
LIMITS: dict[str, int] = {"items": 10}
