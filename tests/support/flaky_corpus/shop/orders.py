"""Orders of the process."""


class Order:
    """An order; all of them are known."""

    known: list[str] = []

    def __init__(self, name: str) -> None:
        self.name = name
        Order.known.append(name)


class Counter:
    """Counts what is sold."""

    value = 0
