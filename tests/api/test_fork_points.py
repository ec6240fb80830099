"""What each fork point resolves to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.support import Caller, fork_body

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("point", "ordinal", "seq"),
    [
        ({"type": "latestSettled"}, 3, 12),
        ({"type": "atSeq"}, 3, 12),
        ({"type": "atSeq", "seq": 1}, 1, 4),
        ({"type": "atSeq", "seq": 4}, 1, 4),
        ({"type": "atSeq", "seq": 5}, 2, 8),
        ({"type": "atSeq", "seq": 12}, 3, 12),
        ({"type": "atSeq", "seq": 13}, 3, 12),
        ({"type": "atSeq", "seq": 2**63 - 1}, 3, 12),
        ({"type": "throughSeq", "seq": 8}, 2, 8),
    ],
)
def test_a_point_is_resolved(
    api: Caller, paths: Paths, hosted: Callable[..., Session], point: dict[str, Any], ordinal: int, seq: int
) -> None:
    session = hosted(turns=3)
    turns = api.get(paths.session(session.pk, "turns")).json()["items"]
    operation = api.post(paths.session(session.pk, "fork"), fork_body(point)).json()
    assert operation["point"] == point
    assert operation["resolvedPoint"] == {"turnId": turns[ordinal - 1]["id"], "seq": seq}


def test_a_whole_number_may_be_written_with_a_point(api: Caller, paths: Paths, hosted: Callable[..., Session]) -> None:
    fork = paths.session(hosted(turns=3).pk, "fork")
    assert api.post(fork, fork_body({"type": "atSeq", "seq": 5.0})).json()["resolvedPoint"]["seq"] == 8
