# SPDX-License-Identifier: Apache-2.0
"""Rules over several files: values and variables that one states and another reads."""
