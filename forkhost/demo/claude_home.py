"""A private Claude Code home in which the real agent runs against :mod:`forkhost.demo.mock_messages`.

Nothing here touches the user's own ``~/.claude`` and nothing leaves the machine. Used by the tests and ``make demo``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL = "claude-sonnet-4-5"


@dataclass(frozen=True, slots=True)
class ClaudeHome:
    """``config`` is what ``CLAUDE_CONFIG_DIR`` names; ``workdir`` is the project the sample conversations work in."""

    root: Path
    workdir: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def config(self) -> Path:
        return self.home / ".claude"


def make_home(root: Path, workdir: Path | None = None) -> ClaudeHome:
    """Create an empty home below ``root`` (private to the user). Calling it again keeps what is there.

    ``workdir`` is ``project`` below ``root`` unless it is given.
    """
    made = ClaudeHome(root, workdir or root / "project")
    for folder in (made.root, made.home, made.config, made.workdir):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return made


def environment(home: ClaudeHome, api_url: str) -> dict[str, str]:
    """Environment for the agent: the mock instead of the network, no telemetry, nothing of an outer Claude session."""
    outer = {name: "" for name in os.environ if name.startswith(("CLAUDE", "ANTHROPIC"))}
    return {
        **outer,
        "ANTHROPIC_BASE_URL": api_url,
        "ANTHROPIC_API_KEY": "offline",
        "HOME": str(home.home),
        "CLAUDE_CONFIG_DIR": str(home.config),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


def options(home: ClaudeHome, api_url: str, resume: str | None = None, **more: Any) -> Any:
    """``ClaudeAgentOptions`` for an isolated run; ``more`` overrides single fields."""
    from claude_agent_sdk import ClaudeAgentOptions

    fields: dict[str, Any] = {
        "env": environment(home, api_url),
        "cwd": str(home.workdir),
        "tools": ["Bash", "Agent"],
        "allowed_tools": ["Bash", "Agent"],
        "setting_sources": [],
        "model": MODEL,
        "resume": resume,
    }
    return ClaudeAgentOptions(**{**fields, **more})


def run_turns(home: ClaudeHome, api_url: str, prompts: Sequence[str], *, resume: str | None = None, **more: Any) -> str:
    """Run ``prompts`` one after the other in one process of the real agent; returns the session's id.

    ``resume`` continues that session. Raises whatever the SDK raises when the agent cannot run.
    """
    return asyncio.run(_run_turns(home, api_url, prompts, resume, more))


async def _run_turns(
    home: ClaudeHome, api_url: str, prompts: Sequence[str], resume: str | None, more: dict[str, Any]
) -> str:
    from claude_agent_sdk import ClaudeSDKClient, ResultMessage

    session_id = resume or ""
    async with ClaudeSDKClient(options(home, api_url, resume, **more)) as client:
        for prompt in prompts:
            await client.query(prompt)
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    session_id = message.session_id
    return session_id
