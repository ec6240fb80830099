"""What one line of a rollout says, in our words. Knows every version's shapes; holds no state.

One source per fact, so that nothing is told twice: people's and the agent's messages come from ``event_msg`` (old
threads) or from its ``item_completed`` (paginated ones); reasoning and tools always from ``response_item``, which every
version writes exactly once per call and per result.
"""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from sessions.providers.base import EventKind, Json
from sessions.providers.codex.rollouts import unix_ms

STARTS = frozenset({"task_started", "turn_started"})
COMPLETES = frozenset({"task_complete", "turn_complete"})
ABORTS = frozenset({"turn_aborted"})
TELLING = frozenset({"event_msg", "turn_context", "compacted"})

# Where codex says what a line is: always within its first bytes, before any text of people or models.
HEAD = 400

_EXIT_CODE = re.compile(r"(?:Process exited with code|Exit code:) (-?\d+)")
_OUTPUT_HEADING = "\nOutput:\n"
_OUTPUT_HEAD = 400


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


# Made once: making one costs as much as reading a short line.
_DECODER = json.JSONDecoder(parse_constant=_no_constant)


class NotJson(ValueError):
    """A line that is no JSON object; the message is a stable reason."""


class Record(NamedTuple):
    """One parsed line."""

    type: str
    kind: str
    timestamp: str
    payload: Json

    @property
    def at_ms(self) -> int:
        return unix_ms(self.timestamp)


@dataclass(frozen=True, slots=True)
class Mark:
    """A line that begins or ends a turn, prompts it, or takes ``rolled_back`` turns back."""

    turn_id: str = ""
    starts: bool = False
    prompts: bool = False
    rolled_back: int = 0


def parse(data: bytes) -> Record:
    """Parse a line. Raises :class:`NotJson`."""
    try:
        row = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise NotJson("not_utf8") from error
    except RecursionError as error:
        raise NotJson("nested_too_deep") from error
    except ValueError as error:
        raise NotJson("not_json") from error
    payload = row.get("payload") if isinstance(row, dict) else None
    if not isinstance(payload, dict):
        raise NotJson("no_payload")
    return Record(text_of(row, "type"), text_of(payload, "type"), text_of(row, "timestamp"), payload)


def tells_something(record: Record) -> bool:
    """Whether a record can be anything but a repetition of others, or of what only codex itself needs."""
    if record.type == "response_item":
        return record.kind != "message"
    return record.type in TELLING


def mark_of(data: bytes) -> Mark | None:
    """The mark a line makes, None for all others, damaged ones included."""
    try:
        record = parse(data)
    except NotJson:
        return None
    if record.type != "event_msg":
        return None
    turn_id = text_of(record.payload, "turn_id")
    if record.kind in STARTS:
        return Mark(turn_id, starts=True)
    if record.kind in COMPLETES or record.kind in ABORTS:
        return Mark(turn_id)
    if record.kind == "user_message":
        return Mark(prompts=True)
    if record.kind == "thread_rolled_back":
        count = record.payload.get("num_turns")
        return Mark(rolled_back=count) if isinstance(count, int) and count > 0 else None
    return None


def text_of(payload: Any, key: str) -> str:
    value = payload.get(key) if isinstance(payload, dict) else None
    return value if isinstance(value, str) else ""


def list_of(payload: Any, key: str) -> list[Any]:
    value = payload.get(key) if isinstance(payload, dict) else None
    return value if isinstance(value, list) else []


def model_and_effort(settings: Any) -> tuple[str, str]:
    """The model and the effort that a turn's context or a thread's settings name, "" for what they do not."""
    mode = settings.get("collaboration_mode") if isinstance(settings, dict) else None
    inner = mode.get("settings") if isinstance(mode, dict) else None
    return text_of(settings, "model"), text_of(settings, "effort") or text_of(inner, "reasoning_effort")


def user_message(record: Record, *, paginated: bool) -> Json | None:
    """The payload of a person's message, None when the record is none."""
    if paginated:
        item = _item(record, "UserMessage")
        if item is None:
            return None
        source = item
        parts = [part for part in list_of(item, "content") if isinstance(part, dict)]
        message: Json = {"text": "\n".join(filter(None, (text_of(part, "text") for part in parts)))}
        images = [_image(part) for part in parts if "image" in text_of(part, "type").lower()]
    else:
        if record.type != "event_msg" or record.kind != "user_message":
            return None
        source = record.payload
        message = {"text": text_of(source, "message")}
        images = [_image({"url": url}) for url in list_of(source, "images")]
        images += [_image({"path": path}) for path in list_of(source, "local_images")]
    if images:
        message["images"] = images
    client_id = text_of(source, "client_id")
    return {**message, "clientId": client_id} if client_id else message


def agent_message(record: Record, *, paginated: bool) -> Json | None:
    """The payload of a message of the agent, None when the record is none."""
    if paginated:
        item = _item(record, "AgentMessage")
        if item is None:
            return None
        text = "".join(text_of(part, "text") for part in list_of(item, "content"))
        phase = text_of(item, "phase")
    else:
        if record.type != "event_msg" or record.kind != "agent_message":
            return None
        text, phase = text_of(record.payload, "message"), text_of(record.payload, "phase")
    return {"text": text, "phase": phase} if phase else {"text": text}


def other_events(record: Record, *, paginated: bool, fallback_id: str) -> Iterator[tuple[EventKind, Json]]:
    """Everything else that people want to see: reasoning, tools, compaction, plans, reviews, errors."""
    if record.type == "response_item":
        yield from _response_item(record, fallback_id)
    elif record.type == "compacted":
        yield EventKind.COMPACTION, {"text": text_of(record.payload, "message")}
    elif record.kind == "item_completed":
        yield from _item_event(record, paginated=paginated)
    elif record.kind == "error":
        yield EventKind.NOTE, error_note(record.payload)
    elif record.kind == "exited_review_mode" and not paginated:
        review = text_of(record.payload.get("review_output"), "overall_explanation")
        if review:
            yield EventKind.NOTE, {"text": review, "about": "review"}


def error_note(error: Any) -> Json:
    """What went wrong, as a note."""
    return {"text": text_of(error, "message") or "The turn failed.", "about": "error"}


def _response_item(record: Record, fallback_id: str) -> Iterator[tuple[EventKind, Json]]:
    payload, kind = record.payload, record.kind
    call_id = text_of(payload, "call_id") or text_of(payload, "id") or fallback_id
    if kind == "reasoning":
        text = _reasoning(payload)
        if text:
            yield EventKind.REASONING, {"text": text}
    elif kind.endswith("_call"):
        yield EventKind.TOOL_CALL, {"callId": call_id, "name": _tool_name(payload), "input": _tool_input(payload)}
    elif kind.endswith("_output"):
        yield EventKind.TOOL_RESULT, {"callId": call_id, **_tool_output(payload.get("output"))}


def _item_event(record: Record, *, paginated: bool) -> Iterator[tuple[EventKind, Json]]:
    item = record.payload.get("item")
    kind = text_of(item, "type")
    if kind == "Plan":
        yield EventKind.NOTE, {"text": text_of(item, "text"), "about": "plan"}
    elif not paginated or not isinstance(item, dict):
        return
    elif kind == "ExitedReviewMode":
        yield EventKind.NOTE, {"text": text_of(item, "review"), "about": "review"}
    elif kind == "CommandExecution" and text_of(item, "source").lower().startswith("user"):
        # A command that a person ran beside the agent; the agent's own are response items.
        call_id = text_of(item, "id")
        yield EventKind.TOOL_CALL, {"callId": call_id, "name": "user_shell", "input": {"command": item.get("command")}}
        exit_code = item.get("exit_code")
        result: Json = {"callId": call_id, "output": text_of(item, "aggregated_output"), "isError": bool(exit_code)}
        yield EventKind.TOOL_RESULT, {**result, "exitCode": exit_code} if isinstance(exit_code, int) else result


def _item(record: Record, kind: str) -> Json | None:
    item = record.payload.get("item") if record.kind == "item_completed" else None
    return item if isinstance(item, dict) and item.get("type") == kind else None


def _image(part: Json) -> Json:
    """A file is named by its path; one that stands in the transcript itself is only described."""
    path = text_of(part, "path")
    if path:
        return {"mediaType": mimetypes.guess_type(path)[0] or "application/octet-stream", "path": path}
    url = text_of(part, "image_url") or text_of(part, "url")
    if url.startswith("data:"):
        return {"mediaType": url[5:].partition(";")[0], "embedded": True}
    return {"mediaType": "image/*", "url": url}


def _reasoning(payload: Json) -> str:
    for key in ("summary", "content"):
        parts = payload.get(key)
        if isinstance(parts, list):
            text = "\n\n".join(filter(None, (text_of(part, "text") for part in parts)))
            if text:
                return text
    return ""


def _tool_name(payload: Json) -> str:
    name = text_of(payload, "name")
    namespace = text_of(payload, "namespace")
    return (f"{namespace}.{name}" if namespace else name) or text_of(payload, "type").removesuffix("_call")


def _tool_input(payload: Json) -> Any:
    arguments = payload.get("arguments")
    if isinstance(arguments, str):
        try:
            return _DECODER.decode(arguments)
        except (ValueError, RecursionError):
            return arguments
    for value in (arguments, payload.get("input"), payload.get("action"), payload.get("revised_prompt")):
        if value is not None:
            return value
    return {}


def _tool_output(output: Any) -> Json:
    """Text, whether it failed, and the exit code, out of every shape that the versions gave to a result."""
    failed = False
    if isinstance(output, dict):
        failed = output.get("success") is False
        output = output.get("content", output)
    if isinstance(output, list):
        output = "\n".join(text_of(part, "text") or f"[{text_of(part, 'type')}]" for part in output)
    if not isinstance(output, str):
        output = "" if output is None else json.dumps(output)
    text, exit_code = _shell_output(output)
    result: Json = {"output": text, "isError": failed or bool(exit_code)}
    return result if exit_code is None else {**result, "exitCode": exit_code}


def _shell_output(output: str) -> tuple[str, int | None]:
    if output.startswith('{"output":'):
        try:
            shaped = json.loads(output)
            return str(shaped["output"]), int(shaped["metadata"]["exit_code"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return output, None
    heading = output.find(_OUTPUT_HEADING, 0, _OUTPUT_HEAD)
    code = _EXIT_CODE.search(output, 0, heading) if heading >= 0 else None
    if code is None:
        return output, None
    return output[heading + len(_OUTPUT_HEADING) :], int(code[1])
