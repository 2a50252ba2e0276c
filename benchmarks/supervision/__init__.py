# SPDX-License-Identifier: Apache-2.0
"""The rows of benchmarks/services.py, one module each, and what they share."""
