"""Callers and sessions: the API's."""

from __future__ import annotations

from tests.api.conftest import api, calling, carry_out, forked, hosted, paths

__all__ = ["api", "calling", "carry_out", "forked", "hosted", "paths"]
