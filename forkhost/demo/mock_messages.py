"""An offline stand-in for the Messages API, so that the real Claude Code can be run without an account.

It answers ``POST /v1/messages`` (streamed) from a script and records what the model would have seen. Standard library
only; it listens on the loopback interface and on a free port. Used by the tests and by ``make demo``.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Context = list[tuple[str, str]]

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_WORD = re.compile(r"\S+\s*")
_PING_SECONDS = 0.2
_ERROR_TYPES = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call of a scripted answer."""

    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says to one prompt.

    With ``tools`` the first answer is those calls (all at once) and ``text`` follows their results. ``hold`` keeps the
    stream open, sending pings, until the event is set. ``status`` answers with that HTTP error instead. ``after_words``
    says how many words are streamed before ``hold`` takes effect.
    """

    text: str
    tools: Sequence[ToolUse] = ()
    thinking: str = ""
    status: int = 0
    hold: threading.Event | None = None
    after_words: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded request. ``context`` is [(role, text)] without the harness's reminders; ``main`` has tools."""

    context: Context
    main: bool
    body: Mapping[str, Any]


def flatten(messages: Sequence[Mapping[str, Any]]) -> Context:
    """The conversation as the model sees it: one (role, text) per block, reminders dropped, other blocks in brackets."""
    seen: Context = []
    for message in messages:
        content = message.get("content", "")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            text = _block_text(block)
            if text:
                seen.append((message["role"], text))
    return seen


def _block_text(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return _REMINDER.sub("", str(block["text"])).strip()
    if kind == "tool_use":
        return f"[call {block['name']} {json.dumps(block['input'], sort_keys=True)}]"
    if kind == "tool_result":
        content = block.get("content")
        if isinstance(content, list):
            content = " ".join(str(part.get("text", part.get("type"))) for part in content)
        return f"[result {_REMINDER.sub('', str(content)).strip()}]"
    return f"[{kind}]"


@dataclass
class MockMessages:
    """The server, used as a context manager. ``script`` maps the exact text of a prompt to its reply."""

    script: dict[str, Reply] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Value for ``ANTHROPIC_BASE_URL``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> MockMessages:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def record(self, body: Mapping[str, Any]) -> int:
        """Remember one request and wake those who wait for it; returns its number, from 1."""
        call = Call(flatten(body.get("messages", [])), bool(body.get("tools")), body)
        with self._arrived:
            self.calls.append(call)
            self._arrived.notify_all()
            return len(self.calls)

    def main_contexts(self) -> list[Context]:
        """Contexts of the requests that carry tools, oldest first (helper requests of the harness have none)."""
        with self._lock:
            return [call.context for call in self.calls if call.main]

    def wait_for(self, prompt: str, seconds: float = 20.0) -> None:
        """Block until a request whose context holds ``prompt`` arrived. Raises ``TimeoutError``."""

        def here() -> bool:
            return any(("user", prompt) in call.context for call in self.calls)

        with self._arrived:
            if not self._arrived.wait_for(here, seconds):
                raise TimeoutError(f"no request with the prompt {prompt!r} within {seconds} s")

    def reply_to(self, body: Mapping[str, Any]) -> tuple[Reply, list[dict[str, Any]]]:
        """The scripted reply to the newest scripted prompt of a request, and the blocks to stream now."""
        context = flatten(body.get("messages", []))
        prompts = [i for i, (role, text) in enumerate(context) if role == "user" and not text.startswith("[")]
        place = prompts[-1] if prompts else 0
        if not prompts or context[place][1] not in self.script:
            text = f"You said: {context[place][1][:80]}" if prompts else "Nothing was said."
            return Reply(text), [{"type": "text", "text": text}]
        reply = self.script[context[place][1]]
        answered = any(role == "assistant" for role, _ in context[place:])
        blocks: list[dict[str, Any]] = []
        if reply.thinking and not answered:
            blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": "c2lnbmVk"})
        if reply.tools and not answered:
            blocks.extend(
                {
                    "type": "tool_use",
                    "id": f"toolu_{len(self.calls):06d}{n:02d}",
                    "name": use.name,
                    "input": dict(use.input),
                }
                for n, use in enumerate(reply.tools)
            )
        else:
            blocks.append({"type": "text", "text": reply.text})
        return reply, blocks


def _handler_for(mock: MockMessages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            return

        def do_HEAD(self) -> None:
            self._json(200, {})

        def do_GET(self) -> None:
            self._json(200, {"data": [], "has_more": False})

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.split("?")[0]
            if path.endswith("/count_tokens"):
                self._json(200, {"input_tokens": len(raw) // 4})
            elif path != "/v1/messages":
                self._json(200, {})
            else:
                self._messages(json.loads(raw))

        def _messages(self, body: dict[str, Any]) -> None:
            number = mock.record(body)
            reply, blocks = mock.reply_to(body)
            if reply.status:
                kind = _ERROR_TYPES.get(reply.status, "api_error")
                self._json(reply.status, {"type": "error", "error": {"type": kind, "message": reply.text}})
                return
            calls = any(block["type"] == "tool_use" for block in blocks)
            message = {
                "id": f"msg_{number:08d}",
                "type": "message",
                "role": "assistant",
                "model": body.get("model", ""),
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 10, "output_tokens": 1},
            }
            stop = "tool_use" if calls else "end_turn"
            if not body.get("stream"):
                self._json(200, {**message, "content": blocks, "stop_reason": stop})
                return
            try:
                self._stream(message, reply, blocks, stop)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _stream(self, message: dict[str, Any], reply: Reply, blocks: list[dict[str, Any]], stop: str) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            self._send("message_start", message=message)
            words = 0
            for index, block in enumerate(blocks):
                start, deltas = _stream_parts(block)
                self._send("content_block_start", index=index, content_block=start)
                for delta in deltas:
                    if words == reply.after_words:
                        self._wait(reply.hold)
                    self._send("content_block_delta", index=index, delta=delta)
                    words += 1
                self._send("content_block_stop", index=index)
            self._send("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 12})
            self._send("message_stop")

        def _wait(self, hold: threading.Event | None) -> None:
            while hold is not None and not hold.wait(_PING_SECONDS):
                if mock.closing.is_set():
                    raise BrokenPipeError
                self._send("ping")

        def _send(self, kind: str, **fields: Any) -> None:
            self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode())
            self.wfile.flush()

        def _json(self, status: int, value: Mapping[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    return Handler


def _stream_parts(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The empty block that opens a stream and the deltas that fill it."""
    if block["type"] == "text":
        words = _WORD.findall(block["text"]) or [""]
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": word} for word in words]
    if block["type"] == "thinking":
        return {"type": "thinking", "thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
