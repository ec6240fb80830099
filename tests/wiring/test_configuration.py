"""A bad environment stops the start with a sentence; a good one is read as it was meant."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from forkhost import configuration
from tests.threads import together


def test_the_data_folder_follows_xdg_and_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert configuration.data_dir(None, {}) == tmp_path / ".local" / "share" / "forkhost"
    made = configuration.data_dir(None, {"XDG_DATA_HOME": str(tmp_path / "xdg")})
    assert made == tmp_path / "xdg" / "forkhost"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ImproperlyConfigured, match="FORKHOST_DATA"):
        configuration.data_dir(str(tmp_path / "file" / "data"), {})


def test_the_secret_key_is_generated_once_even_by_many_at_once(tmp_path: Path) -> None:
    keys = together([lambda: configuration.secret_key(None, tmp_path)] * 8)
    assert len(set(keys)) == 1
    assert len(keys[0]) >= 64
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600


def test_a_given_secret_key_wins_and_has_to_be_long(tmp_path: Path) -> None:
    assert configuration.secret_key("k" * 40, tmp_path) == "k" * 40
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ImproperlyConfigured, match="32 characters"):
        configuration.secret_key("short", tmp_path)


def test_a_damaged_secret_key_is_reported(tmp_path: Path) -> None:
    (tmp_path / "secret_key").write_text("")
    with pytest.raises(ImproperlyConfigured, match="damaged"):
        configuration.secret_key(None, tmp_path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", ("", "", False)),
        ("https://Forks.example.com/", ("https://forks.example.com", "forks.example.com", True)),
        ("http://forks.lan:8080", ("http://forks.lan:8080", "forks.lan", False)),
        ("https://[2001:db8::1]:8443", ("https://[2001:db8::1]:8443", "[2001:db8::1]", True)),
    ],
)
def test_the_public_url_is_taken_apart(value: str, expected: tuple[str, str, bool]) -> None:
    assert configuration.public_url(value) == expected


@pytest.mark.parametrize(
    "value",
    ["forks.example.com", "ftp://x", "https://", "https://x/path", "https://u:p@x", "https://x:port", "https://x?y"],
)
def test_a_public_url_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="FORKHOST_PUBLIC_URL"):
        configuration.public_url(value)


def test_without_a_url_the_database_is_sqlite_made_to_survive_a_power_cut(tmp_path: Path) -> None:
    database = configuration.database(None, tmp_path, pool=False)
    assert database["NAME"] == str(tmp_path / "forkhost.sqlite3")
    assert database["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "recursive_triggers=ON"):
        assert f"PRAGMA {pragma}" in database["OPTIONS"]["init_command"]


def test_a_postgresql_url_is_understood_with_and_without_a_pool(tmp_path: Path) -> None:
    url = "postgresql://me:p%40ss@db.example.com:5433/forks"
    plain = configuration.database(url, tmp_path, pool=False)
    assert (plain["USER"], plain["PASSWORD"], plain["HOST"], plain["PORT"]) == ("me", "p@ss", "db.example.com", 5433)
    assert plain["CONN_MAX_AGE"] > 0
    pooled = configuration.database(url, tmp_path, pool=True)
    assert pooled["OPTIONS"]["pool"]
    assert pooled["CONN_MAX_AGE"] == 0


@pytest.mark.parametrize("url", ["nonsense", "mysql://u:hidden@h/d", "sqlite://:memory:", "postgresql://u:hidden@h/"])
def test_a_database_url_that_cannot_be_used_is_refused_without_repeating_its_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL") as refusal:
        configuration.database(url, tmp_path, pool=False)
    assert "hidden" not in str(refusal.value)


def start(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python with forkhost's settings and nothing configured but ``variables``."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("FORKHOST_", "DATABASE_URL"))}
    environment = {**own, "DJANGO_SETTINGS_MODULE": "forkhost.settings", "FORKHOST_DATA": str(folder), **variables}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def read_setting(folder: Path, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return start(folder, "-c", f"from django.conf import settings; print(settings.{name})", **variables)


def test_settings_of_the_postgresql_url_come_after_forkhosts_own(tmp_path: Path) -> None:
    url = "postgresql://me@localhost/forkhost?options=-c%20search_path%3Dmine"
    said = configuration.database(url, tmp_path, pool=False)["OPTIONS"]["options"]
    assert said == "-c jit=off -c max_parallel_workers_per_gather=0 -c search_path=mine"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FORKHOST_LOG_LEVEL", "loud"),
        ("FORKHOST_LOG_FORMAT", "xml"),
        ("FORKHOST_DEBUG", "perhaps"),
        ("FORKHOST_LEASE_SECONDS", "0.5"),
    ],
)
def test_a_bad_value_stops_the_start_with_a_sentence(tmp_path: Path, name: str, value: str) -> None:
    done = read_setting(tmp_path, "DEBUG", **{name: value})
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert "ImproperlyConfigured" in last
    assert name in last


def test_leases_last_a_minute_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    assert read_setting(tmp_path, "FORKHOST_LEASE_SECONDS").stdout.strip() == "60.0"
    assert read_setting(tmp_path, "FORKHOST_LEASE_SECONDS", FORKHOST_LEASE_SECONDS="5").stdout.strip() == "5.0"
    for value in (0.9, 3601.0, float("nan")):
        with pytest.raises(ImproperlyConfigured, match="FORKHOST_LEASE_SECONDS"):
            configuration.lease_seconds(value)


def test_a_secret_may_be_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("f" * 50)
    done = read_setting(tmp_path, "SECRET_KEY", FORKHOST_SECRET_KEY_FILE=str(tmp_path / "key"))
    assert done.stdout.strip() == "f" * 50, done.stderr


def test_an_https_url_turns_every_secure_setting_on(tmp_path: Path) -> None:
    check = ("manage.py", "check", "--deploy", "--tag", "security", "--fail-level", "WARNING")
    done = start(tmp_path, *check, FORKHOST_PUBLIC_URL="https://forks.example.com")
    assert done.returncode == 0, done.stderr
    assert start(tmp_path, *check).returncode != 0
