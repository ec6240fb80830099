"""What happened: workspaces, runners, sessions and their history."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class SessionsConfig(AppConfig):
    """The label differs from the module because ``django.contrib.sessions`` owns ``sessions``."""

    name = "sessions"
    label = "agent_sessions"
    verbose_name = "Agent sessions"

    def ready(self) -> None:
        """Keep the triggers out of the way of migrations, and the search index in its place."""
        from sessions import search_schema, triggers

        pre_migrate.connect(triggers.before_migration, sender=self, dispatch_uid="agent_sessions_triggers")
        post_migrate.connect(triggers.after_migration, sender=self, dispatch_uid="agent_sessions_triggers")
        pre_migrate.connect(search_schema.before_migration, sender=self, dispatch_uid="agent_sessions_search")
        post_migrate.connect(search_schema.after_migration, sender=self, dispatch_uid="agent_sessions_search")
