# SPDX-License-Identifier: Apache-2.0
"""A Llama of torch and transformers behind HTTP, the pairs of its switches, and the readings of its answers."""
