"""No list asks more of the database because it shows more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.api.support import Caller, fork_body

if TYPE_CHECKING:
    from sessions.models import Session
    from tests.api.conftest import Paths
    from tests.conftest import People

pytestmark = pytest.mark.django_db


def queries_of(api: Caller, path: str, **query: Any) -> int:
    response = api.get(path, **query)
    assert response.status_code == 200, response.content
    with CaptureQueriesContext(connection) as queries:
        response = api.get(path, **query)
        if response.streaming:
            b"".join(response.streaming_content)
    return len(queries)


@pytest.fixture
def imported(people: People, hosted: Callable[..., Session]) -> Callable[[], Session]:
    """Make a session that lies in an agent's home, with everything a row can have."""
    from sessions.models import Home, Runner, SessionSync

    runner = Runner.objects.create(workspace=people.workspace, name="laptop")
    home = Home.objects.create(runner=runner, provider="codex", path="/agents/codex")
    parent = hosted(turns=0)
    count = iter(range(1000))

    def make() -> Session:
        number = next(count)
        session = hosted(
            turns=0,
            provider="codex",
            home=home,
            provider_session_id=f"thread-{number}",
            observed_parent_id=parent.pk,
            observed_parent_provider_id="thread-0",
        )
        SessionSync.objects.create(session=session, path=f"/agents/codex/{number}.jsonl", stamp_imported="1")
        return session

    return make


def test_sessions_and_search(
    api: Caller,
    paths: Paths,
    hosted: Callable[..., Session],
    imported: Callable[[], Session],
    forked: Callable[..., Any],
) -> None:
    from sessions import indexing

    source = hosted(turns=1)
    paged = [(paths.sessions, {}), (paths.sessions, {"q": "question"}), ("/v1/search", {"q": "question"})]

    def grow(times: int) -> list[int]:
        for _ in range(times):
            imported()
            forked(source)
        indexing.catch_up()
        return [queries_of(api, path, **query) for path, query in paged]

    few, many = grow(1), grow(4)
    assert many == few
    # The token, the workspace, the sessions, their lineages, the parents the caller may see.
    assert few[0] <= 5, few
    # Homes, places, sessions by title, segments, provider ids; for search itself also segments, events, prompts.
    assert max(few) <= 14, few


def test_turns_and_events(
    api: Caller, paths: Paths, hosted: Callable[..., Session], forked: Callable[..., Any]
) -> None:
    small, large = hosted(turns=2), hosted(turns=12)
    for source, forks in ((small, 1), (large, 4)):
        for _ in range(forks):
            forked(source)
    for below, most in (("turns", 6), ("events", 6), ("interactions", 4), ("claims", 3)):
        counts = [queries_of(api, paths.session(session.pk, below)) for session in (small, large)]
        assert counts[0] == counts[1] <= most, (below, counts)


def test_family_and_operations(
    api: Caller, paths: Paths, hosted: Callable[..., Session], forked: Callable[..., Any]
) -> None:
    small, large = hosted(turns=1), hosted(turns=1)
    forked(small)
    family = queries_of(api, paths.session(small.pk, "family"))
    operations = queries_of(api, paths.operations)
    for _ in range(4):
        forked(large)
    assert queries_of(api, paths.session(large.pk, "family")) == family <= 7
    assert queries_of(api, paths.operations) == operations <= 3


def test_runners(people: People, api: Caller, paths: Paths) -> None:
    from sessions.models import Home, Runner

    def grow(times: int) -> int:
        for _ in range(times):
            runner = Runner.objects.create(workspace=people.workspace, name=f"r{Runner.objects.count()}")
            Home.objects.create(runner=runner, provider="codex", path="/agents/codex")
        return queries_of(api, f"{paths.workspace}/runners")

    assert grow(1) == grow(4) <= 4


def test_a_fork_is_prepared_with_a_bounded_number_of_queries(
    api: Caller, paths: Paths, hosted: Callable[..., Session]
) -> None:
    def cost(session: Session) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert api.post(paths.session(session.pk, "fork"), fork_body()).status_code == 202
        return len(queries)

    api.get("/v1/workspaces")
    assert cost(hosted(turns=2)) == cost(hosted(turns=12)) <= 40
