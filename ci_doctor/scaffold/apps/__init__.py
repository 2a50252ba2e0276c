# SPDX-License-Identifier: Apache-2.0
"""A repository's own web application, read from its source by `ast`; nothing of it is imported."""
