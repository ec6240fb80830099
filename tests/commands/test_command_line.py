"""What is decided before the settings are read."""

from __future__ import annotations

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
