# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: a program that prints how an interpreter was started."""
