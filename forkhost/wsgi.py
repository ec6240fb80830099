"""The WSGI entry point."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

from forkhost.warming import warm_up

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "forkhost.settings")

application = get_wsgi_application()
warm_up()
