"""What gets installed is pinned, hashed, and installed again only when it changed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

REQUIREMENTS = Path(__file__).resolve().parent.parent.parent / "requirements"
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)")


@pytest.fixture
def installer(tmp_path: Path) -> ModuleType:
    """The installer, working in an empty folder."""
    spec = importlib.util.spec_from_file_location("forkhost_installer", REQUIREMENTS / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    for name in ("runtime", "dev"):
        (tmp_path / f"{name}.txt").write_text(f"{name}==1\n")
    vars(module).update(HERE=tmp_path, VENV=tmp_path / ".venv", PYTHON=tmp_path / ".venv" / "bin" / "python")
    return module


def pins(name: str) -> dict[str, str]:
    lines = (REQUIREMENTS / f"{name}.txt").read_text().splitlines()
    return dict(match.groups() for line in lines if (match := PIN.match(line)))


@pytest.mark.parametrize("name", ["runtime", "dev"])
def test_every_pin_has_hashes_and_no_index_is_named(name: str) -> None:
    text = (REQUIREMENTS / f"{name}.txt").read_text()
    assert "://" not in text
    assert "--index" not in text
    entries = [entry for entry in re.split(r"\n(?=[A-Za-z0-9])", text) if not entry.startswith("#")]
    assert len(entries) == len(pins(name)) > 20
    for entry in entries:
        assert "--hash=sha256:" in entry, entry


def test_the_tests_run_with_what_users_get() -> None:
    assert pins("runtime").items() <= pins("dev").items()


@pytest.mark.parametrize("name", ["runtime", "dev"])
def test_every_requirement_is_locked(name: str) -> None:
    asked = re.findall(r"^([A-Za-z][A-Za-z0-9_-]+)", (REQUIREMENTS / f"{name}.in").read_text(), re.MULTILINE)
    assert {each.lower() for each in asked} <= set(pins(name))


def test_nothing_is_installed_twice(installer: ModuleType) -> None:
    assert not installer.is_current("runtime")
    installer.stamp("runtime").write_text(installer.key("runtime"))
    assert installer.is_current("runtime")
    assert not installer.is_current("dev")


def test_what_the_tests_need_includes_what_users_need(installer: ModuleType) -> None:
    installer.stamp("dev").write_text(installer.key("dev"))
    assert installer.is_current("dev")
    assert installer.is_current("runtime")


def test_a_changed_lock_is_installed(installer: ModuleType) -> None:
    installer.stamp("runtime").write_text(installer.key("runtime"))
    (installer.HERE / "runtime.txt").write_text("runtime==2\n")
    assert not installer.is_current("runtime")


def test_a_missing_environment_is_made_again(installer: ModuleType) -> None:
    installer.stamp("runtime").write_text(installer.key("runtime"))
    installer.PYTHON.unlink()
    assert not installer.is_current("runtime")
