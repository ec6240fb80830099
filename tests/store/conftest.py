"""What the tests of the store share."""

from __future__ import annotations

import pytest

from sessions.models import Workspace


@pytest.fixture
def workspace(db: None) -> Workspace:
    """A workspace."""
    return Workspace.objects.create(name="Here", slug="here")
