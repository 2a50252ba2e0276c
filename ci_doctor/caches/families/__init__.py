# SPDX-License-Identifier: Apache-2.0
"""Families of JIT caches: where each lies, what decides its validity, and how one sees its use."""
