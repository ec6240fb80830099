"""What happened: workspaces, runners, sessions and their history."""

from __future__ import annotations

from django.apps import AppConfig


class SessionsConfig(AppConfig):
    """The label differs from the module because ``django.contrib.sessions`` owns ``sessions``."""

    name = "sessions"
    label = "agent_sessions"
    verbose_name = "Agent sessions"
