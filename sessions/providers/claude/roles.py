"""What one row of a transcript is, decided from that row alone."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Any

INTERRUPT_TEXTS = ("[Request interrupted by user]", "[Request interrupted by user for tool use]")
IMAGE_NOTE = "[Image: source: "

_COMMAND = ("<command-name>", "<command-message>", "<bash-input>")
_COMMAND_OUTPUT = ("<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>")
_PERSON = frozenset({None, "human", "sdk", "unknown"})
_NOTIFICATION = "<task-notification>"
_COMMAND_NAME = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_COMMAND_ARGS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_TAGS = re.compile(r"</?(?:local-command-(?:stdout|stderr)|bash-(?:input|stdout|stderr))>")


class RowRole(enum.Enum):
    """The part a chain row plays in the conversation."""

    PROMPT = "prompt"
    AUTO = "auto"
    COMMAND = "command"
    COMMAND_OUTPUT = "command_output"
    RESULT = "result"
    SUMMARY = "summary"
    BOUNDARY = "boundary"
    INTERRUPT = "interrupt"
    ASSISTANT = "assistant"
    API_ERROR = "api_error"
    QUEUED = "queued"
    META = "meta"
    HIDDEN = "hidden"


TURN_STARTS = frozenset({RowRole.PROMPT, RowRole.AUTO, RowRole.BOUNDARY})


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """Content blocks of a message, a plain string as one text block; anything else is left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, Sequence):
        return [block for block in content if isinstance(block, dict)]
    return []


def text_of(content: Any) -> str:
    """The text blocks of a message, joined by line ends."""
    return "\n".join(str(block.get("text") or "") for block in blocks_of(content) if block.get("type") == "text")


def message_content(data: dict[str, Any]) -> Any:
    message = data.get("message")
    return message.get("content") if isinstance(message, dict) else None


def role_of(data: dict[str, Any]) -> RowRole:
    """Classify one chain row."""
    kind = data.get("type")
    if kind == "assistant":
        return RowRole.API_ERROR if data.get("isApiErrorMessage") else RowRole.ASSISTANT
    if kind == "user":
        return _user_role(data)
    if kind == "system":
        if data.get("subtype") == "compact_boundary":
            return RowRole.BOUNDARY
        if data.get("subtype") == "local_command" and not data.get("isMeta"):
            return RowRole.COMMAND_OUTPUT
    attachment = data.get("attachment")
    if kind == "attachment" and isinstance(attachment, dict) and attachment.get("type") == "queued_command":
        return RowRole.QUEUED if attachment.get("commandMode", "prompt") == "prompt" else RowRole.HIDDEN
    return RowRole.HIDDEN


def _user_role(data: dict[str, Any]) -> RowRole:
    content = message_content(data)
    if data.get("isCompactSummary"):
        return RowRole.SUMMARY
    if any(block.get("type") == "tool_result" for block in blocks_of(content)):
        return RowRole.RESULT
    if data.get("isMeta"):
        return RowRole.META
    text = text_of(content).lstrip()
    if text.rstrip() in INTERRUPT_TEXTS:
        return RowRole.INTERRUPT
    if text.startswith(_COMMAND):
        return RowRole.COMMAND
    if text.startswith(_COMMAND_OUTPUT):
        return RowRole.COMMAND_OUTPUT
    if data.get("turnOrigin") not in _PERSON or text.startswith(_NOTIFICATION):
        return RowRole.AUTO
    return RowRole.PROMPT


def command_text(raw: str) -> str:
    """A slash command as it was typed, from the tags the agent stores it in."""
    name = _COMMAND_NAME.search(raw)
    if name is None:
        return _TAGS.sub("", raw).strip()
    args = _COMMAND_ARGS.search(raw)
    return f"{name[1].strip()} {args[1].strip() if args else ''}".strip()


def command_output_text(raw: str) -> str:
    """Output of a command run by the harness itself, without its tags."""
    return _TAGS.sub("", raw)
