"""What a web process does before its first request."""

from __future__ import annotations

import gc
import importlib

from django.conf import settings


def warm_up() -> None:
    """Load what the first request would, and keep the garbage collector from looking at it ever again.

    It looks at everything that is alive, and what was loaded is nearly all of it: fifty milliseconds, in the middle of
    some page every few dozen pages.
    """
    importlib.import_module(settings.ROOT_URLCONF)
    gc.collect()
    gc.freeze()
