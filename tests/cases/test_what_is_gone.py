"""A fork whose source lost its folder: told with a code and a sentence, and nothing is sent."""

from __future__ import annotations

import shutil
from pathlib import Path

from operations.choices import OperationStatus
from sessions.models import Session
from tests.operations.support import World


def test_a_session_whose_folder_is_gone_is_not_forked_and_the_folder_is_named(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    Session.objects.filter(pk=world.source.pk).update(cwd=str(folder))
    operation = world.prepare()
    folder.rmdir()
    world.work(operation)
    assert (operation.status, operation.error_code) == (OperationStatus.FAILED, "working_folder_missing")
    assert str(folder) in operation.error_text
    assert world.agent.calls == []
    folder.mkdir()
    assert world.fork().status == OperationStatus.COMMITTED


def test_a_file_where_the_folder_was_is_no_folder(world: World, tmp_path: Path) -> None:
    place = tmp_path / "project"
    place.touch()
    Session.objects.filter(pk=world.source.pk).update(cwd=str(place))
    assert world.fork().error_code == "working_folder_missing"


def test_a_session_that_recorded_no_folder_is_forked(world: World) -> None:
    Session.objects.filter(pk=world.source.pk).update(cwd="")
    assert world.fork().status == OperationStatus.COMMITTED


def test_without_its_home_a_fork_fails_and_the_source_stays_as_it_was(world: World) -> None:
    operation = world.prepare()
    before = Session.objects.values().get(pk=world.source.pk)
    shutil.move(world.home.path, f"{world.home.path}.away")
    world.work(operation)
    assert (operation.status, operation.error_code) == (OperationStatus.FAILED, "home_missing")
    assert Session.objects.values().get(pk=world.source.pk) == before
    assert not Session.objects.filter(pk=operation.target_session_id).exists()
