"""Long transcripts as Codex and Claude Code write them, made up line by line, so that their size costs no memory.

The mix is that of long working sessions: per turn one prompt, several steps of thinking, a call and its output, and an
answer in Markdown; most bytes are tool output. The rows carry the fields the agents write, needed or not.
"""

from __future__ import annotations

import itertools
import json
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from sessions.providers.base import Json

CWD = "/home/dev/project"
STEPS = 6
BEGAN = datetime(2026, 7, 29, 12, tzinfo=UTC)
MODEL = "claude-sonnet-4-5"

_WORDS = [
    "the",
    "session",
    "keeps",
    "a",
    "cursor",
    "and",
    "reads",
    "on",
    "from",
    "there",
    "when",
    "the",
    "file",
    "has",
    "grown",
    "since",
    "then",
    "def",
    "test",
    "assert",
    "return",
    "import",
    '"quoted"',
    "path/to/module.py",
    "line",
    "42",
    "error:",
    "expected",
    "ident",
    "found",
    "λ",
    "naïve",
    "—",
    "done;",
    "lock",
    "order",
    "log",
    "row",
]


class Words:
    """Text without end, the same in every run."""

    def __init__(self, seed: int = 7) -> None:
        dice = random.Random(seed)
        self._pool = "\n".join(" ".join(dice.choices(_WORDS, k=12)) for _ in range(20_000))
        self._dice = dice

    def text(self, length: int) -> str:
        """About ``length`` characters."""
        start = self._dice.randrange(len(self._pool) - length)
        return self._pool[start : start + length]


def _stamp(tick: int) -> str:
    return (BEGAN + timedelta(milliseconds=250 * tick)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_codex(
    home: Path, size: int, *, seed: int = 7, turns: int | None = None, cwd: str = CWD, steps: int = STEPS
) -> tuple[str, Path]:
    """A thread of about ``size`` bytes (or of exactly ``turns`` turns) below ``home``; its id and its rollout.

    A turn is a prompt, ``steps`` tool calls with a thought before each, and an answer.
    """
    thread_id = str(uuid.UUID(int=(int(BEGAN.timestamp() * 1000) << 80) | (7 << 76) | (2 << 62) | seed))
    folder = home / "sessions" / BEGAN.strftime("%Y/%m/%d")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rollout-{BEGAN.strftime('%Y-%m-%dT%H-%M-%S')}-{thread_id}.jsonl"
    meta = {
        "id": thread_id,
        "timestamp": _stamp(0),
        "cwd": cwd,
        "originator": "codex_cli_rs",
        "cli_version": "0.163.0",
        "source": "cli",
        "model_provider": "openai",
        "history_mode": "paginated",
    }
    with path.open("wb") as file:
        _put(file, {"timestamp": _stamp(0), "ordinal": 0, "type": "session_meta", "payload": meta})
        _fill(file, size, turns, _codex_turns(thread_id, Words(seed), cwd, steps))
    return thread_id, path


def write_claude(
    config: Path, size: int, *, seed: int = 7, turns: int | None = None, cwd: str = CWD, steps: int = STEPS
) -> tuple[str, Path]:
    """A session below ``config`` like :func:`write_codex`'s, with the same texts; its id and transcript."""
    session_id = str(uuid.UUID(int=seed, version=4))
    folder = config / "projects" / cwd.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session_id}.jsonl"
    with path.open("wb") as file:
        _fill(file, size, turns, _claude_turns(session_id, Words(seed), cwd, steps))
    return session_id, path


def _fill(file: BinaryIO, size: int, turns: int | None, rows: Iterator[list[Json]]) -> None:
    for count in itertools.count(1):
        for row in next(rows):
            _put(file, row)
        if count == turns or (turns is None and file.tell() >= size):
            return


def _put(file: BinaryIO, row: Json) -> None:
    file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def _codex_turns(thread_id: str, words: Words, cwd: str, steps: int) -> Iterator[list[Json]]:
    ticks = itertools.count(1)

    def row(kind: str, payload: Json) -> Json:
        tick = next(ticks)
        return {"timestamp": _stamp(tick), "ordinal": tick, "type": kind, "payload": payload}

    def item(turn_id: str, value: Json) -> Json:
        return row("event_msg", {"type": "item_completed", "thread_id": thread_id, "turn_id": turn_id, "item": value})

    for number in itertools.count(1):
        turn_id = str(uuid.UUID(int=number, version=4))
        prompt = words.text(200)
        rows = [
            row("event_msg", {"type": "task_started", "turn_id": turn_id, "model_context_window": 272_000}),
            row("turn_context", {"turn_id": turn_id, "cwd": cwd, "approval_policy": "never", "model": "gpt-5-codex"}),
            row("response_item", _codex_message("user", prompt)),
            item(turn_id, {"type": "UserMessage", "id": f"u{number}", "content": [{"type": "text", "text": prompt}]}),
        ]
        for step in range(steps):
            call_id = f"call_{number}_{step}"
            thought = words.text(500)
            command = json.dumps({"cmd": words.text(120), "workdir": cwd})
            output = f"Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 0\nOutput:\n{words.text(1800)}"
            rows += [
                item(turn_id, {"type": "Reasoning", "id": f"rs_{call_id}", "summary_text": [thought]}),
                row(
                    "response_item",
                    {
                        "type": "reasoning",
                        "id": f"rs_{call_id}",
                        "summary": [{"type": "summary_text", "text": thought}],
                        "content": None,
                        "encrypted_content": words.text(300),
                    },
                ),
                row(
                    "response_item",
                    {"type": "function_call", "name": "exec_command", "arguments": command, "call_id": call_id},
                ),
                row("response_item", {"type": "function_call_output", "call_id": call_id, "output": output}),
                row("event_msg", {"type": "token_count", "info": _codex_tokens(number * steps + step)}),
            ]
        answer = words.text(1500)
        rows += [
            item(turn_id, {"type": "AgentMessage", "id": f"m{number}", "content": [{"type": "Text", "text": answer}]}),
            row("response_item", _codex_message("assistant", answer)),
            row("event_msg", {"type": "task_complete", "turn_id": turn_id, "last_agent_message": answer}),
        ]
        yield rows


def _codex_message(role: str, text: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _codex_tokens(count: int) -> Json:
    usage = {
        "input_tokens": 100,
        "cached_input_tokens": 90,
        "output_tokens": 10,
        "reasoning_output_tokens": 0,
        "total_tokens": 110,
    }
    return {"total_token_usage": {name: value * count for name, value in usage.items()}, "last_token_usage": usage}


def _claude_turns(session_id: str, words: Words, cwd: str, steps: int) -> Iterator[list[Json]]:
    ticks = itertools.count(1)
    parent: str | None = None
    common: Json = {
        "userType": "external",
        "entrypoint": "cli",
        "cwd": cwd,
        "sessionId": session_id,
        "version": "2.1.332",
        "gitBranch": "main",
    }

    def row(kind: str, message: Json, **more: Any) -> Json:
        nonlocal parent
        tick = next(ticks)
        own = str(uuid.UUID(int=tick, version=4))
        made: Json = {"parentUuid": parent, "isSidechain": False, "type": kind, "message": message, "uuid": own}
        parent = own
        return {**made, "timestamp": _stamp(tick), **more, **common}

    def answer(number: int, step: int, reason: str, block: Json) -> Json:
        message = {
            "id": f"msg_{number}_{step}",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [block],
            "stop_reason": reason,
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 12, "iterations": []},
        }
        return row("assistant", message, requestId=f"req_{number}_{step}")

    for number in itertools.count(1):
        rows = [row("user", {"role": "user", "content": words.text(200)}, promptId=str(uuid.UUID(int=number)))]
        for step in range(steps):
            call_id = f"toolu_{number}_{step}"
            call = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": words.text(120)}}
            output = words.text(1800)
            result = {"tool_use_id": call_id, "type": "tool_result", "content": output, "is_error": False}
            rows += [
                answer(
                    number, step, "tool_use", {"type": "thinking", "thinking": words.text(500), "signature": "s" * 300}
                ),
                answer(number, step, "tool_use", call),
                row(
                    "user",
                    {"role": "user", "content": [result]},
                    toolUseResult={"stdout": output, "stderr": "", "interrupted": False, "isImage": False},
                ),
            ]
        rows.append(answer(number, steps, "end_turn", {"type": "text", "text": words.text(1500)}))
        yield rows
