# SPDX-License-Identifier: Apache-2.0
"""Stands for the package of this name."""
