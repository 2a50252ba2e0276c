# SPDX-License-Identifier: Apache-2.0
"""Explain: the one place that reads a log and names its cause. Pure."""
