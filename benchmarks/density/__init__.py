# SPDX-License-Identifier: Apache-2.0
"""Figures of Python sources, and the table comparing packages."""
