# SPDX-License-Identifier: Apache-2.0
"""Figures of Python sources and Markdown pages, and the table comparing packages."""
