# SPDX-License-Identifier: Apache-2.0
"""JIT caches between jobs: restored, saved, and whether that has paid (docs/cache.md)."""
