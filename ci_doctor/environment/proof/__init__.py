# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a pin holds: the metadata is built with it, by the backend that the project names."""
