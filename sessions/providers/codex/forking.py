"""One native fork: one short-lived app-server, one ``thread/fork``, one verified child."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sessions.providers.base import (
    ForkAccepted,
    ForkReporter,
    ForkRequest,
    Json,
    NotStarted,
    Rejected,
    Unknown,
    Unreadable,
)
from sessions.providers.codex import reasons, settings
from sessions.providers.codex.app_server import (
    AppServer,
    AppServerError,
    RpcError,
    clean_environment,
    process_identity,
)
from sessions.providers.codex.attestation import START_SECONDS, version_of
from sessions.providers.codex.evidence import accepted, prove_child
from sessions.providers.codex.executable import find_executable
from sessions.providers.codex.lineage import locate
from sessions.providers.codex.records import text_of
from sessions.providers.codex.rollouts import read_meta
from sessions.providers.crashpoints import CrashPoint, crash_point

PAGE = 100
FOLLOW_UP_SECONDS = 10.0


def fork(request: ForkRequest, reporter: ForkReporter, environ: Mapping[str, str]) -> ForkAccepted:
    """Make the one call. Raises NotStarted, Rejected, Unknown, and whatever ``reporter`` raises; never retries."""
    executable = find_executable(environ)
    if executable is None:
        raise NotStarted(reasons.CODEX_MISSING, reasons.SENTENCES[reasons.CODEX_MISSING])
    home = request.source.home.path
    try:
        server = AppServer(executable.argv, cwd=home, environment=clean_environment(environ, home))
    except OSError as error:
        raise NotStarted(reasons.CODEX_START_FAILED, f"Codex did not start: {error}.") from error
    with server:
        _shake_hands(server, request)
        reporter.process_started(process_identity(server.pid))
        reply = _call(server, request)
        thread = reply.get("thread")
        child_id = text_of(thread, "id")
        if not child_id:
            raise Unknown(reasons.WRONG_CHILD, "Codex answered without naming a new session.")
        reporter.announce(child_id)
        _compare_reply(request, reply, child_id)
        found = _prove(server, request, child_id, Path(text_of(thread, "path")))
        warning = _set_title(server, request, child_id)
        return replace(found, warnings=[warning]) if warning else found


def _shake_hands(server: AppServer, request: ForkRequest) -> None:
    try:
        version, _ = version_of(server.initialize(time.monotonic() + START_SECONDS))
    except (AppServerError, RpcError) as error:
        raise NotStarted(reasons.CODEX_START_FAILED, f"Codex did not start: {error}.") from error
    if version != request.attestation.driver_version:
        expected = request.attestation.driver_version
        raise NotStarted(reasons.RUNTIME_CHANGED, f"Codex is {version} now; this fork was prepared for {expected}.")


def _call(server: AppServer, request: ForkRequest) -> Json:
    """The one mutating request."""
    deadline = time.monotonic() + request.attestation.longest_fork_seconds
    try:
        number = server.send("thread/fork", parameters(request), deadline)
        crash_point(CrashPoint.DURING_CALL)
        reply = server.answer(number, deadline)
    except RpcError as error:
        code = reasons.nothing_made(error.message)
        if code:
            raise Rejected(code, f"Codex refused: {error.message}") from error
        raise Unknown(reasons.UNLISTED_ERROR, f"Codex answered with error {error.code}: {error.message}") from error
    except AppServerError as error:
        server.kill()
        if not error.sent:
            raise NotStarted(reasons.NOT_SENT, f"The request did not reach codex: {error}.") from error
        raise Unknown(reasons.DELIVERY_UNKNOWN, f"The answer of codex was not received: {error}.") from error
    crash_point(CrashPoint.AFTER_CHILD_MADE)
    return reply


def parameters(request: ForkRequest) -> Json:
    """Everything ``thread/fork`` is told."""
    wanted: Json = {
        "threadId": request.source.provider_session_id,
        "lastTurnId": request.turn.binding.provider_turn_id,
        "threadSource": request.marker,
        "excludeTurns": True,
        **settings.fork_parameters(request.settings),
    }
    if request.source.cwd:
        wanted["cwd"] = request.source.cwd
    provider = _model_provider(request)
    if request.settings.model and provider:
        # A model means nothing without the one that serves it, and the configuration may name another by now.
        wanted["modelProvider"] = provider
    return wanted


def _model_provider(request: ForkRequest) -> str:
    try:
        meta = read_meta(locate(request.source))
    except Unreadable:
        return ""
    return meta.model_provider if meta is not None else ""


def _compare_reply(request: ForkRequest, reply: Json, child_id: str) -> None:
    thread = reply.get("thread")
    if child_id == request.source.provider_session_id:
        raise Unknown(reasons.WRONG_CHILD, "Codex named the source itself as the fork.")
    expected = {"forkedFromId": request.source.provider_session_id, "threadSource": request.marker}
    for name, value in expected.items():
        if text_of(thread, name) != value:
            problem = f"Codex answered with another {name} than was asked for."
            raise Unknown(reasons.WRONG_CHILD, problem, child_provider_session_id=child_id)
    wider = settings.widened(request.settings, settings.from_reply(reply))
    if wider:
        problem = f"The new session has a wider {' and '.join(wider)} than its source."
        raise Unknown(reasons.RIGHTS_WIDENED, problem, child_provider_session_id=child_id)


def _prove(server: AppServer, request: ForkRequest, child_id: str, path: Path) -> ForkAccepted:
    """The files decide; codex's own list must not contradict them (it may be empty until it is projected)."""
    try:
        proof = prove_child(request, path)
    except (Unreadable, OSError) as error:
        problem = f"The new session cannot be read: {error}"
        raise Unknown(reasons.WRONG_CHILD, problem, child_provider_session_id=child_id) from error
    if proof.code:
        raise Unknown(proof.code, proof.problem, child_provider_session_id=child_id)
    try:
        listed = _listed_turns(server, request, child_id)
    except (AppServerError, RpcError):
        listed = []
    wanted = _bound_prefix(request)
    if listed and listed[-len(wanted) :] != wanted:
        problem = "Codex lists other turns in the new session than were asked for."
        raise Unknown(reasons.WRONG_CHILD, problem, child_provider_session_id=child_id)
    if listed:
        proof.verified.append("listedTurns")
    return accepted(request, child_id, path, proof)


def _bound_prefix(request: ForkRequest) -> list[str]:
    if not request.require_prefix:
        return [request.turn.binding.provider_turn_id]
    return [binding.provider_turn_id for binding in request.prefix if binding.provider_turn_id]


def _listed_turns(server: AppServer, request: ForkRequest, child_id: str) -> list[str]:
    """The child's last turn id as codex lists it; under the strict contract all that are bound, in order."""
    deadline = time.monotonic() + FOLLOW_UP_SECONDS
    asked: Json = {"threadId": child_id, "limit": PAGE if request.require_prefix else 1, "sortDirection": "desc"}
    bound = set(_bound_prefix(request))
    newest_first: list[str] = []
    while True:
        page = server.request("thread/turns/list", asked, deadline)
        newest_first += [text_of(turn, "id") for turn in page.get("data") or []]
        cursor = page.get("nextCursor")
        if not cursor or not request.require_prefix:
            break
        asked = {**asked, "cursor": cursor}
    if newest_first and newest_first[0] not in bound:
        return newest_first[:1]
    return [turn_id for turn_id in reversed(newest_first) if turn_id in bound]


def _set_title(server: AppServer, request: ForkRequest, child_id: str) -> str:
    """Name the child; "" or a sentence that says why it kept its source's name."""
    if not request.title:
        return ""
    try:
        asked = {"threadId": child_id, "name": request.title}
        server.request("thread/name/set", asked, time.monotonic() + FOLLOW_UP_SECONDS)
    except (AppServerError, RpcError) as error:
        return f"Codex could not give the new session its title: {error}."
    return ""
