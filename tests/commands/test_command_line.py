"""What is decided before the settings are read."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from forkhost.command_line import keep_demo_apart, take_data_option


@pytest.mark.parametrize(
    ("given", "rest", "folder"),
    [
        (["manage.py", "up"], ["manage.py", "up"], None),
        (["manage.py", "up", "--data", "/srv/x", "--no-open"], ["manage.py", "up", "--no-open"], "/srv/x"),
        (["manage.py", "worker", "--data=/srv/x"], ["manage.py", "worker"], "/srv/x"),
        (["manage.py", "dumpdata", "--data", "x"], ["manage.py", "dumpdata", "--data", "x"], None),
        (["manage.py"], ["manage.py"], None),
    ],
)
def test_the_data_folder_is_taken_out_of_our_commands_alone(
    given: list[str], rest: list[str], folder: str | None
) -> None:
    assert take_data_option(given) == (rest, folder)


@pytest.mark.parametrize("given", [["manage.py", "up", "--data"], ["manage.py", "up", "--data="]])
def test_a_missing_folder_is_said_in_a_sentence(given: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        take_data_option(given)
    assert ended.value.code == "forkhost: --data needs a folder."


def test_the_demo_never_touches_the_real_database_or_data_folder() -> None:
    environ = {
        "DATABASE_URL": "postgresql://real",
        "FORKHOST_DATA": "/srv/real",
        "FORKHOST_PUBLIC_URL": "https://real",
        "XDG_DATA_HOME": "/home/dev/data",
    }
    keep_demo_apart(environ, chosen=False)
    assert environ == {"FORKHOST_DATA": "/home/dev/data/forkhost-demo", "XDG_DATA_HOME": "/home/dev/data"}
    environ["FORKHOST_DATA"] = "/srv/chosen"
    keep_demo_apart(environ, chosen=True)
    assert environ["FORKHOST_DATA"] == "/srv/chosen"


def bare_python(folder: Path) -> list[str]:
    """A Python without Django, and a copy of the command line in ``folder``."""
    shutil.copy(Path(__file__).parents[2] / "manage.py", folder)
    return [sys.executable, "-I", "-S", str(folder / "manage.py"), "doctor", "a b"]


def test_with_a_python_that_lacks_django_the_environment_beside_it_goes_on(tmp_path: Path) -> None:
    own = tmp_path / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    own.chmod(0o755)
    done = subprocess.run(bare_python(tmp_path), capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path / 'manage.py'}|doctor|a b|"


def test_without_an_environment_it_says_how_to_make_one(tmp_path: Path) -> None:
    done = subprocess.run(bare_python(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("forkhost: what it needs is not installed here yet.")
