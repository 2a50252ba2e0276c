# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: the first schema, what evidence files say and its sums by day and by commit."""

from alembic import op

from ci_doctor.history.database import METADATA

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make all tables: as long as no schema was published, those of today are the first ones."""
    METADATA.create_all(op.get_bind())
