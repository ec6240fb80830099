"""A ``codex`` that runs the real one and makes trouble at the one call that matters."""

from __future__ import annotations

import enum
import os
import sys
from pathlib import Path

from sessions.providers.codex.executable import find_executable


class Trouble(enum.StrEnum):
    NONE = "none"
    DEAD_ON_START = "dead on start"
    SILENT_ON_START = "silent on start"
    OTHER_VERSION = "other version"
    NO_ANCHOR = "no anchor"
    DIES_BEFORE_PASSING_ON = "dies before passing on"
    DIES_WITH_THE_ANSWER = "dies with the answer"
    KEEPS_THE_ANSWER = "keeps the answer"
    NEW_ERROR = "new error"
    ALTERS_THE_ANSWER = "alters the answer"
    REFUSES_THE_TITLE = "refuses the title"


PROGRAM = """#!{python}
import json, os, signal, subprocess, sys, threading, time

trouble, alteration = {trouble!r}, {alteration!r}
if trouble == "dead on start":
    sys.exit(1)
real = subprocess.Popen([{codex!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
asked = {{}}
lock = threading.Lock()


def answer(message):
    with lock:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\\n")
        sys.stdout.buffer.flush()


def die():
    real.kill()
    os._exit(1)


def relay():
    for line in iter(real.stdout.readline, b""):
        message = json.loads(line)
        method = asked.pop(message.get("id"), "") if "method" not in message else ""
        if trouble == "silent on start":
            continue
        if method == "initialize" and trouble == "other version":
            message["result"]["userAgent"] = "forkhost/0.142.5 (Debian)"
        if method == "thread/fork":
            if trouble == "dies with the answer":
                die()
            if trouble == "keeps the answer":
                continue
            if trouble == "alters the answer":
                message["result"] = {{**message["result"], **alteration}}
                message["result"]["thread"].update(alteration)
        answer(message)
    os._exit(0)


threading.Thread(target=relay, daemon=True).start()
for line in iter(sys.stdin.buffer.readline, b""):
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {{}})
    is_probe = method == "thread/fork" and not isinstance(params.get("lastTurnId"), str)
    if is_probe and trouble == "no anchor":
        params.pop("lastTurnId")
    if method == "thread/fork" and not is_probe:
        if trouble == "dies before passing on":
            die()
        if trouble == "new error":
            answer({{"id": message["id"], "error": {{"code": -32603, "message": "failed to do something new"}}}})
            continue
    if method == "thread/name/set" and trouble == "refuses the title":
        answer({{"id": message["id"], "error": {{"code": -32600, "message": "no"}}}})
        continue
    if "id" in message and not is_probe:
        asked[message["id"]] = method
    real.stdin.write(json.dumps(message).encode() + b"\\n")
    real.stdin.flush()
real.stdin.close()
real.wait()
"""


def make_troublemaker(folder: Path, trouble: Trouble, alteration: dict[str, object] | None = None) -> Path:
    """Write the program and return its path."""
    real = find_executable(os.environ)
    assert real is not None, "no codex to make trouble with"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "codex-troublemaker"
    path.write_text(
        PROGRAM.format(python=sys.executable, codex=str(real.path), trouble=trouble.value, alteration=alteration or {})
    )
    path.chmod(0o755)
    return path
