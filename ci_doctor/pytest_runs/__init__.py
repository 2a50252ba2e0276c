# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs a repository's own pytest, keeps every attempt of a test, judges them."""
