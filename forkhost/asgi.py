"""The ASGI entry point."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

from forkhost.warming import warm_up

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "forkhost.settings")

application = get_asgi_application()
warm_up()
