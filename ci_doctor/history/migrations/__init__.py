# SPDX-License-Identifier: Apache-2.0
"""The steps of the schema, as Alembic reads them."""
