"""What the adapter says about a codex is proven by that codex itself, without side effects."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sessions.providers.base import HomeRef, IdentityMode, PointSupport
from sessions.providers.codex import attestation
from sessions.providers.codex.adapter import CodexAdapter
from sessions.providers.codex.executable import OVERRIDE, find_executable, native_program
from tests.codex.support import digests
from tests.codex.troublemaker import Trouble, make_troublemaker


@pytest.fixture(autouse=True)
def nothing_proven_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attestation, "_proven", {})


def test_the_real_codex_proves_that_it_forks_at_any_turn(adapter: CodexAdapter, home: HomeRef) -> None:
    before = digests(home)
    found = adapter.attest(home)

    assert found.points is PointSupport.ANY_TURN, found.detail
    assert found.identity_mode is IdentityMode.MARKER
    assert tuple(int(part) for part in found.driver_version.split(".")[:3]) >= (0, 143, 0)
    assert len(found.fingerprint) == 64
    assert Path(found.executable).name == "codex"
    assert (found.reason, found.detail) == ("", "")
    assert digests(home) == before


def test_the_same_codex_has_the_same_fingerprint_and_is_asked_once(
    adapter: CodexAdapter, home: HomeRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = adapter.attest(home)
    monkeypatch.setattr(attestation, "AppServer", None)
    assert adapter.attest(home) == first


def test_another_environment_has_another_fingerprint(
    adapter: CodexAdapter, home: HomeRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = adapter.attest(home)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert adapter.attest(home).fingerprint != first.fingerprint


def test_a_variable_that_is_not_handed_over_changes_nothing(
    adapter: CodexAdapter, home: HomeRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = adapter.attest(home)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert adapter.attest(home) == first


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (Trouble.OTHER_VERSION, "codex_too_old"),
        (Trouble.NO_ANCHOR, "codex_no_turn_anchor"),
        (Trouble.DEAD_ON_START, "codex_start_failed"),
    ],
)
def test_a_codex_that_cannot_fork_at_a_turn_is_unsupported_with_a_reason_and_a_sentence(
    adapter: CodexAdapter,
    home: HomeRef,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Trouble,
    reason: str,
) -> None:
    monkeypatch.setenv(OVERRIDE, str(make_troublemaker(tmp_path / "bin", trouble)))
    found = adapter.attest(home)

    assert (found.points, found.reason, found.whole_session) == (PointSupport.UNSUPPORTED, reason, False)
    assert found.detail.startswith(adapter.explain(reason))
    assert adapter.explain(reason) != reason


def test_a_codex_that_never_answers_is_unsupported_in_bounded_time(
    adapter: CodexAdapter, home: HomeRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OVERRIDE, str(make_troublemaker(tmp_path / "bin", Trouble.SILENT_ON_START)))
    monkeypatch.setattr(attestation, "START_SECONDS", 0.5)
    assert adapter.attest(home).reason == "codex_start_failed"


def test_a_script_in_the_override_is_asked_every_time(
    adapter: CodexAdapter, home: HomeRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OVERRIDE, str(make_troublemaker(tmp_path / "bin", Trouble.NONE)))
    assert adapter.attest(home).points is PointSupport.ANY_TURN
    assert attestation._proven == {}


def test_no_codex_at_all_is_unsupported(adapter: CodexAdapter, home: HomeRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERRIDE, "/nowhere/codex")
    found = adapter.attest(home)
    assert (found.points, found.reason) == (PointSupport.UNSUPPORTED, "codex_missing")


def test_a_home_that_is_gone_is_unsupported(adapter: CodexAdapter, tmp_path: Path) -> None:
    assert adapter.attest(HomeRef("codex", tmp_path / "gone")).reason == "home_missing"


def test_the_native_program_behind_the_npm_script_is_found(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "@openai" / "codex"
    script = package / "bin" / "codex.js"
    native = tmp_path / "node_modules" / "@openai" / "codex-linux-x64" / "vendor" / "x86_64-linux" / "bin" / "codex"
    for path in (script, native):
        path.parent.mkdir(parents=True)
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    shutil.copy("/bin/true", native)
    link = tmp_path / "bin" / "codex"
    link.parent.mkdir()
    link.symlink_to(script)

    assert native_program(link) == native
    found = find_executable({"PATH": str(link.parent)})
    assert found is not None
    assert (found.path, found.native) == (native, True)


def test_a_script_on_the_path_without_a_native_program_behind_it_is_not_started(tmp_path: Path) -> None:
    script = tmp_path / "codex"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    found = find_executable({"PATH": str(tmp_path)})
    assert found is None or found.path != Path(os.path.realpath(script))
