"""Starting a command: what has to be decided before Django reads its settings, and errors as sentences."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping, Sequence

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

from forkhost.configuration import default_data_dir

DATA_OPTION = "--data"
DEMO = "demo"
# Commands of forkhost that take --data; Django's own use the word for other things.
WITH_DATA = frozenset({"up", "worker", DEMO, "doctor", "token"})


def main(argv: Sequence[str]) -> None:
    """Run one management command. Exits non-zero with one sentence when the settings cannot be used."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "forkhost.settings")
    rest, folder = take_data_option(argv)
    if folder is not None:
        os.environ["FORKHOST_DATA"] = os.path.abspath(os.path.expanduser(folder))
    if rest[1:2] == [DEMO]:
        keep_demo_apart(os.environ, chosen=folder is not None)
    try:
        execute_from_command_line(rest)
    except ImproperlyConfigured as error:
        sys.exit(f"forkhost: {error}")


def keep_demo_apart(environ: MutableMapping[str, str], *, chosen: bool) -> None:
    """Give the demo a data folder and a database of its own, whatever the environment says about the real ones.

    ``chosen``: ``FORKHOST_DATA`` was named on the command line and stays.
    """
    for name in ("DATABASE_URL", "DATABASE_URL_FILE", "FORKHOST_PUBLIC_URL"):
        environ.pop(name, None)
    if not chosen:
        folder = default_data_dir(environ)
        environ["FORKHOST_DATA"] = str(folder.with_name(f"{folder.name}-{DEMO}"))


def take_data_option(argv: Sequence[str]) -> tuple[list[str], str | None]:
    """``argv`` without ``--data DIR``, and DIR; the settings read the folder from the environment, once.

    Exits with a sentence when the folder is missing after the option.
    """
    rest = list(argv)
    if len(rest) < 2 or rest[1] not in WITH_DATA:
        return rest, None
    folder = None
    for index, word in enumerate(rest):
        if word.startswith(f"{DATA_OPTION}="):
            folder = rest.pop(index).partition("=")[2]
            break
        if word == DATA_OPTION:
            rest.pop(index)
            folder = rest.pop(index) if index < len(rest) else ""
            break
    if folder == "":
        sys.exit("forkhost: --data needs a folder.")
    return rest, folder
