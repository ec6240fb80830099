"""forkhost's settings for tests: a data folder of their own, plain static files, a cheap password hash.

The database is chosen by ``DATABASE_URL`` as in production; without it, SQLite in a file (not in memory: threads and
worker processes have to share it). A process started by a test inherits the folder.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_process = os.environ.get("PYTEST_XDIST_WORKER", "main")
if os.environ.get("FORKHOST_TEST_PROCESS") != _process:
    _folder = tempfile.mkdtemp(prefix="forkhost-test-")
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    os.environ["FORKHOST_TEST_PROCESS"] = _process
    os.environ["FORKHOST_DATA"] = _folder
    for _name in ("FORKHOST_PUBLIC_URL", "FORKHOST_ALLOWED_HOSTS", "FORKHOST_SECRET_KEY", "FORKHOST_DEBUG"):
        os.environ.pop(_name, None)
    # A test that runs in one transaction may wait long in it.
    os.environ.setdefault("FORKHOST_STALL_SECONDS", "0")
    # No test may read the agents of the person who runs it.
    for _name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        _home = Path(_folder) / "agents" / _name.lower()
        _home.mkdir(parents=True)
        os.environ[_name] = str(_home)

from forkhost.settings import *  # noqa: E402, F403
from forkhost.settings import ALLOWED_HOSTS, DATABASES, FORKHOST_DATA, STATIC_ROOT, STORAGES  # noqa: E402

ALLOWED_HOSTS = [*ALLOWED_HOSTS, "testserver"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
STATIC_ROOT.mkdir(exist_ok=True)
if DATABASES["default"]["ENGINE"] == "forkhost.kit.sqlite":
    DATABASES["default"]["TEST"] = {"NAME": str(FORKHOST_DATA / "test.sqlite3")}
