# SPDX-License-Identifier: Apache-2.0
"""Stands for a server's command line: a thread warms up an import, and the main thread needs it a moment later."""

import threading
import time


def warm_up() -> None:
    """Import in the background what the server will need."""
    import lazy_models  # noqa: F401


threading.Thread(target=warm_up, name="warm-up", daemon=True).start()


def main() -> None:
    """Read options for a while, then need the package."""
    time.sleep(0.2)
    from lazy_models import GenerationConfig

    print(f"serving with {GenerationConfig.__name__}")


if __name__ == "__main__":
    main()
