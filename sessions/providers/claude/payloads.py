"""Payloads of events, made from rows. Pictures carry their bytes as ``data`` for whoever stores them."""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from sessions.providers.base import EventKind, Json
from sessions.providers.claude.roles import (
    RowRole,
    blocks_of,
    command_output_text,
    command_text,
    message_content,
    text_of,
)

_EXIT_CODE = re.compile(r"\AExit code (\d{1,9})\b")
_PERSISTED = re.compile(r"<persisted-output>.*?saved to:? *(\S[^\n]*)", re.DOTALL)

Record = tuple[EventKind, Json]


def records_of(role: RowRole, data: Json, image_paths: list[str]) -> Iterator[Record]:
    """The events one row stands for, in order. ``image_paths`` are the files its pictures were stored in, if known."""
    if role in (RowRole.PROMPT, RowRole.AUTO):
        yield EventKind.MESSAGE_USER, user_payload(message_content(data), image_paths)
    elif role is RowRole.QUEUED:
        yield EventKind.MESSAGE_USER, {**user_payload(data["attachment"].get("prompt"), image_paths), "queued": True}
    elif role is RowRole.COMMAND:
        yield EventKind.CONTEXT, {"text": command_text(text_of(message_content(data))), "command": True}
    elif role is RowRole.COMMAND_OUTPUT:
        raw = data.get("content") if data.get("type") == "system" else text_of(message_content(data))
        yield EventKind.CONTEXT, {"text": command_output_text(str(raw or "")), "commandOutput": True}
    elif role is RowRole.INTERRUPT:
        yield EventKind.NOTE, {"text": text_of(message_content(data)).strip(), "interrupt": True}
    elif role is RowRole.API_ERROR:
        yield EventKind.NOTE, _error_payload(data)
    elif role is RowRole.SUMMARY:
        yield EventKind.COMPACTION, {"text": text_of(message_content(data))}
    elif role in (RowRole.RESULT, RowRole.ASSISTANT):
        yield from _block_records(role, data)


def user_payload(content: Any, image_paths: list[str]) -> Json:
    """``{"text", "images"?}`` of what a person sent."""
    payload: Json = {"text": text_of(content)}
    images = [_image(block) for block in blocks_of(content) if block.get("type") in ("image", "document")]
    for image, path in zip(images, image_paths, strict=False):
        image["path"] = path
    if images:
        payload["images"] = images
    return payload


def _image(block: Json) -> Json:
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    image: Json = {"mediaType": str(source.get("media_type") or "")}
    encoded = source.get("data")
    if isinstance(encoded, str):
        try:
            content = b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            content = encoded.encode("utf-8", "surrogatepass")
        image |= {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "data": encoded}
    elif isinstance(source.get("url"), str):
        image["url"] = source["url"]
    return image


def _error_payload(data: Json) -> Json:
    payload: Json = {"text": text_of(message_content(data)), "error": True}
    if isinstance(data.get("apiErrorStatus"), int):
        payload["status"] = data["apiErrorStatus"]
    return payload


def _block_records(role: RowRole, data: Json) -> Iterator[Record]:
    texts: list[Json] = []
    for block in blocks_of(message_content(data)):
        kind = str(block.get("type") or "")
        if kind == "text" and role is RowRole.ASSISTANT:
            yield EventKind.MESSAGE_ASSISTANT, {"text": str(block.get("text") or "")}
        elif kind == "text":
            texts.append(block)
        elif kind in ("thinking", "redacted_thinking"):
            yield EventKind.REASONING, {"text": str(block.get("thinking") or "")}
        elif kind.endswith("tool_use"):
            call: Json = {"callId": str(block.get("id") or ""), "name": str(block.get("name") or "")}
            yield EventKind.TOOL_CALL, {**call, "input": block.get("input")}
        elif kind.endswith("tool_result"):
            yield EventKind.TOOL_RESULT, _result_payload(block)
    if texts:
        yield EventKind.CONTEXT, {"text": text_of(texts)}


def _result_payload(block: Json) -> Json:
    content = block.get("content")
    output = text_of(content)
    failed = block.get("is_error") is True
    payload: Json = {"callId": str(block.get("tool_use_id") or ""), "output": output, "isError": failed}
    images = [_image(part) for part in blocks_of(content) if part.get("type") in ("image", "document")]
    if images:
        payload["images"] = images
    exit_code = _EXIT_CODE.match(output) if failed else None
    if exit_code:
        payload["exitCode"] = int(exit_code[1])
    persisted = _PERSISTED.search(output) if "<persisted-output>" in output else None
    if persisted:
        payload["persistedPath"] = persisted[1].strip()
    return payload


def usage_of(data: Json) -> dict[str, int]:
    """Tokens of one model message, by the names the history uses."""
    message = data.get("message")
    usage = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(usage, dict):
        return {}
    names = {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "cacheReadInputTokens": "cache_read_input_tokens",
        "cacheCreationInputTokens": "cache_creation_input_tokens",
    }
    return {ours: usage[theirs] for ours, theirs in names.items() if isinstance(usage.get(theirs), int)}


def call_ids(data: Json, suffix: str, key: str) -> list[str]:
    """Ids of the calls (``tool_use``, ``id``) or results (``tool_result``, ``tool_use_id``) in a row."""
    return [
        str(block.get(key) or "")
        for block in blocks_of(message_content(data))
        if str(block.get("type") or "").endswith(suffix)
    ]
