# SPDX-License-Identifier: Apache-2.0
"""Stands for a library of another version than its caller: one parameter has moved."""


class CacheAdapter:
    """Connects an engine with a cache server."""

    def __init__(self, address: str, mq_timeout: float, world_size: int = 1) -> None:
        self.address = address
        self.mq_timeout = mq_timeout
        self.world_size = world_size
