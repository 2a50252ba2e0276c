# SPDX-License-Identifier: Apache-2.0
"""Stands for the package sglang: `python -m sglang.launch_server`."""
