# SPDX-License-Identifier: Apache-2.0
"""Explain: import races."""
