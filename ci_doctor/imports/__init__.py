# SPDX-License-Identifier: Apache-2.0
"""Explain: import races, and the timeline of imports by thread."""
