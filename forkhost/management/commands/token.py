"""``manage.py token``: a token for the REST API."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from forkhost import preparing
from forkhost.kit.scopes import ALL_SCOPES, Scope
from forkhost.models import ApiToken
from sessions import workspaces


class Command(BaseCommand):
    """Writes the token, and nothing else, to standard output; nothing can show it again."""

    help = "Make an API token for a user and print it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--create", action="store_true", help="make the user when there is none")
        parser.add_argument(
            "--scopes",
            nargs="+",
            default=[scope.value for scope in ALL_SCOPES],
            choices=[scope.value for scope in Scope],
            help="what the token may do (default: everything)",
        )
        parser.add_argument("--name", default="", help="what the token is for")
        parser.add_argument("--days", type=int, help="how long it lasts (default: until it is revoked)")
        parser.add_argument("--data", metavar="DIR", help="where forkhost keeps its data (default: FORKHOST_DATA)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["days"] is not None and options["days"] < 1:
            raise CommandError("--days has to be at least 1.")
        preparing.migrate()
        user = self._user(options["username"], create=options["create"])
        lifetime = dt.timedelta(days=options["days"]) if options["days"] else None
        self.stdout.write(ApiToken.issue(user, scopes=options["scopes"], name=options["name"], lifetime=lifetime))

    def _user(self, username: str, *, create: bool) -> User:
        user = User.objects.filter(username=username).first()
        if user is None:
            if not create:
                raise CommandError(f"There is no user {username!r}. Add --create to make one.")
            user = User.objects.create_user(username)
            workspaces.join(user, workspaces.default_workspace())
        if not user.is_active:
            raise CommandError(f"The user {username!r} is not active.")
        return user
