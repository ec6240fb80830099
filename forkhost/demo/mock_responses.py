"""A stand-in for the Responses API, so that a real ``codex`` can run turns on a machine without network or account.

It listens on the loopback address only and answers every ``POST .../responses`` with a short stream of events. What it
answers is decided by a script: the prompt's text is looked up in ``answers``, and directives in the prompt add to it.

====================  ==============================================================================================
``<shell CMD>``       the model first calls the shell tool it was offered with CMD, then answers
``<patch FILE>``      the model first writes one line to FILE through the patch tool
``<spawn TEXT>``      the model first gives TEXT to a sub-agent as its task
``<think TEXT>``      a reasoning summary comes before the answer
``<fill N>``          the answer is padded to N characters
``<refuse STATUS>``   the request is refused with that HTTP status
``<hold>``            the answer waits until :meth:`MockResponses.release` is called
====================  ==============================================================================================

Everything the model was shown is kept in ``requests``, so that a test can prove which history a session really has.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast

Json = dict[str, Any]

DIRECTIVE = re.compile(r"<(shell|patch|spawn|think|fill|refuse|hold)(?: ([^<>]*))?>")
HOLD_SECONDS = 60.0
USAGE_IN, USAGE_OUT = 100, 10


@dataclass(frozen=True, slots=True)
class Shown:
    """One request as the model saw it: ``texts`` are (role or item type, text) pairs in order."""

    texts: list[tuple[str, str]]
    headers: dict[str, str]
    tools: list[str]

    @property
    def prompts(self) -> list[str]:
        """The people's messages among it, without what codex itself adds."""
        return [text for role, text in self.texts if role == "user" and not text.startswith("<")]


@dataclass(slots=True)
class MockResponses:
    """The server. Use as a context manager; ``base_url`` is known once the block is entered.

    ``cues`` holds directives for prompts that do not show them.
    """

    answers: Mapping[str, str] = field(default_factory=dict)
    cues: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    requests: list[Shown] = field(default_factory=list)
    _released: threading.Event = field(default_factory=threading.Event)
    _count: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _server: _Server | None = None

    def __enter__(self) -> MockResponses:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen. Raises ``OSError`` when the port is taken."""
        self._server = _Server(self)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="mock-responses", daemon=True).start()

    def stop(self) -> None:
        """Stop listening and let every held answer go."""
        self._released.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def release(self) -> None:
        """Let answers that wait for ``<hold>`` go."""
        self._released.set()

    def record(self, body: Json, headers: Mapping[str, str]) -> Shown:
        tools = [str(tool.get("name") or tool.get("type")) for tool in body.get("tools") or []]
        shown = Shown(_texts(body), {name.lower(): value for name, value in headers.items()}, tools)
        self.requests.append(shown)
        return shown

    def respond(self, shown: Shown) -> list[Json]:
        """The output items of the answer to one request."""
        number = next(self._count)
        prompt, tool_done = _last_prompt(shown)
        asked = dict(DIRECTIVE.findall(prompt + self.cues.get(prompt, "")))
        if "hold" in asked:
            self._released.wait(HOLD_SECONDS)
        items: list[Json] = []
        if "think" in asked and not tool_done:
            items.append(_reasoning(number, asked["think"]))
        call = None if tool_done else _tool_call(number, asked, shown.tools)
        if call is not None:
            return [*items, call]
        plain = DIRECTIVE.sub("", prompt).strip()
        answer = self.answers.get(plain, f"Answer {number} to: {plain[:200]}")
        return [*items, _message(number, answer.ljust(int(asked.get("fill") or 0), "."))]


def refusal(shown: Shown) -> int:
    """The HTTP status this request is to be refused with, 0 for none."""
    return int(dict(DIRECTIVE.findall(_last_prompt(shown)[0])).get("refuse") or 0)


def _texts(body: Json) -> list[tuple[str, str]]:
    given = body.get("input") or []
    if isinstance(given, str):
        return [("user", given)]
    return [(str(item.get("role") or item.get("type")), _text(item)) for item in given]


def _text(item: Json) -> str:
    content = item.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    for key in ("output", "arguments", "input"):
        if key in item:
            value = item[key]
            return value if isinstance(value, str) else json.dumps(value)
    return content if isinstance(content, str) else ""


def _last_prompt(shown: Shown) -> tuple[str, bool]:
    """The last person's message, and whether a tool has answered since."""
    tool_done = False
    for role, text in reversed(shown.texts):
        if role.endswith("_output"):
            tool_done = True
        if role == "user":
            return text, tool_done
    return "", tool_done


def _message(number: int, text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}


def _reasoning(number: int, text: str) -> Json:
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [{"type": "summary_text", "text": text}]}


def _tool_call(number: int, asked: Mapping[str, str], offered: list[str]) -> Json | None:
    if "shell" in asked:
        command = asked["shell"]
        shapes: Mapping[str, Json] = {
            "exec_command": {"cmd": command},
            "shell_command": {"command": command},
            "shell": {"command": ["bash", "-c", command]},
        }
        name = next((name for name in shapes if name in offered), "shell")
        return _call(number, {"type": "function_call", "name": name, "arguments": json.dumps(shapes[name])})
    if "patch" in asked:
        patch = f"*** Begin Patch\n*** Add File: {asked['patch']}\n+one line\n*** End Patch\n"
        return _call(number, {"type": "custom_tool_call", "name": "apply_patch", "input": patch})
    if "spawn" in asked:
        arguments = json.dumps({"message": asked["spawn"]})
        item = {"type": "function_call", "namespace": "multi_agent_v1", "name": "spawn_agent", "arguments": arguments}
        return _call(number, item)
    return None


def _call(number: int, item: Json) -> Json:
    return {**item, "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}


def _stream(items: list[Json]) -> Iterator[Json]:
    response: Json = {"id": f"resp_{items[-1]['id']}"}
    yield {"type": "response.created", "response": response}
    for index, item in enumerate(items):
        is_message = item["type"] == "message"
        begun = {**item, "content": [], "status": "in_progress"} if is_message else item
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        if is_message:
            text = item["content"][0]["text"]
            place: Json = {"output_index": index, "content_index": 0, "item_id": item["id"]}
            yield {"type": "response.output_text.delta", **place, "delta": text}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    usage = {
        "input_tokens": USAGE_IN,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": USAGE_OUT,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": USAGE_IN + USAGE_OUT,
    }
    yield {
        "type": "response.completed",
        "response": {**response, "status": "completed", "output": items, "usage": usage},
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, mock: MockResponses) -> None:
        super().__init__(("127.0.0.1", mock.port), _Handler)
        self.mock = mock


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal quiet."""

    def do_GET(self) -> None:
        self._json(200, {"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if not self.path.split("?")[0].endswith("/responses"):
            self._json(404, {"error": {"message": "not here"}})
            return
        mock = cast(_Server, self.server).mock
        shown = mock.record(body, dict(self.headers))
        status = refusal(shown)
        if status:
            self._json(status, {"error": {"message": "refused as asked"}})
        else:
            self._events(mock.respond(shown))

    def _json(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _events(self, items: list[Json]) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for event in _stream(items):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        except (BrokenPipeError, ConnectionResetError):
            # The agent interrupted its turn or was killed while it was being answered.
            return
