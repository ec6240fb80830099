"""Twenty callers send the same fork at the same moment: one operation, twenty equal answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.api.support import Caller, fork_body
from tests.threads import together

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db(transaction=True)

CALLERS = 20


@pytest.mark.parametrize("contract", ["optimistic", "strict"])
def test_one_request_makes_one_operation(
    people: People,
    api: Caller,
    paths: Paths,
    hosted: Callable[..., Session],
    carry_out: Callable[[], int],
    contract: str,
) -> None:
    from operations.models import Operation
    from sessions.models import Session

    people.workspace.fork_contract = contract
    people.workspace.save()
    fork, body = paths.session(hosted().pk, "fork"), fork_body()
    answers = together([lambda: api.post(fork, body)] * CALLERS, timeout=60)
    assert [answer.status_code for answer in answers] == [202] * CALLERS, [answer.content for answer in answers]
    assert all(answer.json() == answers[0].json() for answer in answers)
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    assert Operation.objects.count() == 1
    assert carry_out() == 1
    assert Operation.objects.get().calls == 1
    assert Session.objects.count() == 2


def test_different_requests_for_one_target_make_one_operation(
    api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    fork = paths.session(hosted().pk, "fork")
    target = fork_body()["targetAgentSessionId"]
    answers = together([lambda: api.post(fork, fork_body(targetAgentSessionId=target)) for _ in range(8)], timeout=60)
    assert sorted(answer.status_code for answer in answers) == [202] + [409] * 7
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"target_reserved"}


def test_one_request_id_with_different_bodies_is_one_operation_and_conflicts(
    api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    fork, body = paths.session(hosted().pk, "fork"), fork_body()
    answers = together([lambda n=n: api.post(fork, {**body, "title": f"Way {n}"}) for n in range(8)], timeout=60)
    assert sorted(answer.status_code for answer in answers) == [202] + [409] * 7
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"request_conflict"}
