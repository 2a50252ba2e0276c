# SPDX-License-Identifier: Apache-2.0
"""Stands for a server's package."""
