# SPDX-License-Identifier: Apache-2.0
"""Configuration: loaded, merged, decoded, with where each value came from."""
