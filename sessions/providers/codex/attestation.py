"""Proves what the codex of this machine is and can do, without making anything."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from sessions.providers.base import Attestation, BindingMode, HomeRef, IdentityMode, PointSupport
from sessions.providers.codex import reasons
from sessions.providers.codex.app_server import AppServer, AppServerError, RpcError, clean_environment
from sessions.providers.codex.executable import Executable, find_executable

DRIVER_KIND = "codex-app-server"
FLOOR = (0, 143, 0)
START_SECONDS = 20.0
LONGEST_FORK_SECONDS = 30.0

# A thread that cannot exist together with a wrongly typed anchor: a codex that knows the anchor complains about the
# type, one that does not looks for the thread. Neither makes anything.
PROBE = {"threadId": "01a00000-0000-7000-8000-000000000000", "lastTurnId": 123}
ANCHOR_KNOWN = "invalid type: integer"

_VERSION = re.compile(r"[^/]*/((\d+)\.(\d+)\.(\d+)[^\s]*)")

_proven: dict[tuple[object, ...], Attestation] = {}
_lock = threading.Lock()


def attest(home: HomeRef, environ: Mapping[str, str]) -> Attestation:
    """Never raises. What was proven of one native file holds until its path, size or time changes; no script's does."""
    executable = find_executable(environ)
    if executable is None:
        return _unsupported(reasons.CODEX_MISSING)
    if not home.path.is_dir():
        return _unsupported(reasons.HOME_MISSING, executable=executable)
    environment = clean_environment(environ, home.path)
    key = (executable, tuple(sorted(environment.items())))
    with _lock:
        if key in _proven:
            return _proven[key]
    found = _prove(executable, home.path, environment)
    if executable.native and found.points is not PointSupport.UNSUPPORTED:
        with _lock:
            _proven[key] = found
    return found


def version_of(reply: Mapping[str, object]) -> tuple[str, tuple[int, int, int]]:
    """The version in the reply of ``initialize``, as text and as numbers; ("", (0, 0, 0)) when it names none."""
    match = _VERSION.match(str(reply.get("userAgent", "")))
    if match is None:
        return "", (0, 0, 0)
    return match[1], (int(match[2]), int(match[3]), int(match[4]))


def _prove(executable: Executable, home: Path, environment: Mapping[str, str]) -> Attestation:
    deadline = time.monotonic() + START_SECONDS
    try:
        with AppServer(executable.argv, cwd=home, environment=environment) as server:
            version, numbers = version_of(server.initialize(deadline))
            knows_anchor = numbers >= FLOOR and _knows_anchor(server, deadline)
    except (AppServerError, RpcError, OSError) as error:
        return _unsupported(reasons.CODEX_START_FAILED, f"It said: {error}.", executable=executable)
    fingerprint = executable.fingerprint(version=version, cwd=home, environment=environment)
    if numbers < FLOOR:
        detail = f"The codex on this runner is {version or 'of an unknown version'}."
        return _unsupported(reasons.CODEX_TOO_OLD, detail, version, fingerprint, executable)
    if not knows_anchor:
        return _unsupported(reasons.NO_TURN_ANCHOR, "", version, fingerprint, executable)
    return _attestation(PointSupport.ANY_TURN, version, fingerprint, executable)


def _knows_anchor(server: AppServer, deadline: float) -> bool:
    try:
        server.request("thread/fork", PROBE, deadline)
    except RpcError as error:
        return ANCHOR_KNOWN in error.message
    return False


def _unsupported(
    reason: str,
    detail: str = "",
    version: str = "",
    fingerprint: str = "",
    executable: Executable | None = None,
) -> Attestation:
    sentence = f"{reasons.SENTENCES[reason]} {detail}".strip()
    return _attestation(PointSupport.UNSUPPORTED, version, fingerprint, executable, reason, sentence)


def _attestation(
    points: PointSupport,
    version: str,
    fingerprint: str,
    executable: Executable | None,
    reason: str = "",
    detail: str = "",
) -> Attestation:
    return Attestation(
        driver_kind=DRIVER_KIND,
        driver_version=version,
        fingerprint=fingerprint,
        points=points,
        whole_session=points is not PointSupport.UNSUPPORTED,
        binding_mode=BindingMode.HOST_COPY,
        identity_mode=IdentityMode.MARKER,
        longest_fork_seconds=LONGEST_FORK_SECONDS,
        reason=reason,
        detail=detail,
        executable=os.fspath(executable.path) if executable is not None else "",
    )
