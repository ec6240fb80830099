"""Lets codex show a session that was copied into its home.

Codex answers reads from an index of its own, which it fills when it opens a session: for a copied child only if it has
opened what the child inherits from before, the oldest first. Until then it shows nothing, and says no word of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sessions.providers.base import ForkRequest, Json, Unreadable
from sessions.providers.codex import reasons, settings
from sessions.providers.codex.app_server import AppServer, AppServerError, RpcError, clean_environment
from sessions.providers.codex.executable import find_executable
from sessions.providers.codex.records import text_of
from sessions.providers.codex.rollouts import titles

ANSWER_SECONDS = 30.0
PAGE = 100


def project(
    request: ForkRequest,
    home: Path,
    lineage: Sequence[str],
    inherited: Sequence[str],
    environ: Mapping[str, str],
    *,
    opened_before: bool,
) -> None:
    """Make codex list exactly the turns ``inherited`` as the beginning of the last thread of ``lineage``.

    ``lineage`` are thread ids, the oldest first. The child keeps the settings and the title of the fork, whatever the
    configuration of this home says. ``opened_before``: the child's record shows that codex opened it here already. One
    that was not is opened even when codex lists it: its index may be of a longer record that was lost since, and it
    would refuse to fork the session. Asks no model. Raises :class:`Unreadable` with ``bind_not_readable``.
    """
    executable = find_executable(environ)
    if executable is None:
        raise Unreadable(reasons.CODEX_MISSING, reasons.SENTENCES[reasons.CODEX_MISSING])
    child_id = lineage[-1]
    try:
        with AppServer(executable.argv, cwd=home, environment=clean_environment(environ, home)) as server:
            server.initialize(_deadline())
            if not opened_before or _listed(server, child_id)[: len(inherited)] != list(inherited):
                for thread_id in lineage:
                    kept = settings.fork_parameters(request.settings) if thread_id == child_id else {}
                    opened = {"threadId": thread_id, "excludeTurns": True, **kept}
                    server.request("thread/resume", opened, _deadline())
            listed = _listed(server, child_id)
            if request.title and child_id not in titles(home):
                server.request("thread/name/set", {"threadId": child_id, "name": request.title}, _deadline())
    except (AppServerError, RpcError, OSError) as error:
        raise Unreadable(reasons.BIND_NOT_READABLE, f"Codex cannot open the session in {home}: {error}.") from error
    if listed[: len(inherited)] != list(inherited):
        raise Unreadable(
            reasons.BIND_NOT_READABLE, f"In {home} codex lists other turns of the session than its source's."
        )


def _listed(server: AppServer, thread_id: str) -> list[str]:
    """The ids of a thread's turns as codex lists them, in order."""
    asked: Json = {"threadId": thread_id, "limit": PAGE, "sortDirection": "asc"}
    found: list[str] = []
    while True:
        page = server.request("thread/turns/list", asked, _deadline())
        found += [text_of(turn, "id") for turn in page.get("data") or []]
        if not page.get("nextCursor"):
            return found
        asked = {**asked, "cursor": page["nextCursor"]}


def _deadline() -> float:
    return time.monotonic() + ANSWER_SECONDS
