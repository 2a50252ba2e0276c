# SPDX-License-Identifier: Apache-2.0
"""Directory trees in a shared store: manifests and content-addressed packs, written once."""
