"""What a web process needs for its first page is loaded before it, whichever way it is served."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("way", ["wsgi", "asgi"])
def test_a_web_process_has_its_pages_loaded_and_left_out_of_garbage_collection(way: str) -> None:
    look = (
        f"import gc, sys, forkhost.{way}; from django.conf import settings;"
        "print(settings.ROOT_URLCONF in sys.modules, gc.get_freeze_count() > 0)"
    )
    found = subprocess.run([sys.executable, "-c", look], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "True"]
