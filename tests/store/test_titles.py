"""One counter per family, never set back."""

from __future__ import annotations

import pytest

from sessions import store, titles
from sessions.models import Family, Workspace
from tests.store.histories import fresh, hosted, turn
from tests.threads import together


@pytest.mark.django_db
def test_forks_and_forks_of_forks_count_on_in_their_family(workspace: Workspace) -> None:
    root = hosted(workspace, title="Fix login")
    first = store.fork(root.pk)
    second = store.fork(first.pk)
    assert [first.title, second.title, store.fork(root.pk).title] == ["Fix login (2)", "Fix login (3)", "Fix login (4)"]


@pytest.mark.django_db
def test_a_number_is_never_given_again(workspace: Workspace) -> None:
    root = hosted(workspace, title="Fix login")
    gone = store.fork(root.pk)
    store.purge(gone.pk)
    assert store.fork(root.pk).title == "Fix login (3)"


@pytest.mark.django_db
def test_a_title_of_ones_own_takes_no_number(workspace: Workspace) -> None:
    root = hosted(workspace, title="Fix login")
    assert store.fork(root.pk, title="Try Redis").title == "Try Redis"
    assert store.fork(root.pk).title == "Fix login (2)"


@pytest.mark.django_db
def test_the_family_is_called_after_its_root(workspace: Workspace) -> None:
    root = hosted(workspace, title="")
    store.append(root.pk, turn(1))
    assert titles.fork_title(root.family_id) == "prompt 1 (2)"
    store.rename(root.pk, "Better name")
    child = store.fork(root.pk)
    assert child.title == "Better name (3)"
    store.rename(child.pk, "The child's own")
    assert titles.fork_title(fresh(root).family_id) == "Better name (4)"
    assert titles.fork_title(hosted(workspace, title="").family_id) == "Untitled session (2)"


@pytest.mark.django_db(transaction=True)
def test_forks_at_the_same_moment_take_different_numbers() -> None:
    family = Family.objects.create(title="Fix login")
    taken = together([lambda: titles.fork_title(family.pk) for _ in range(8)])
    assert sorted(taken) == [f"Fix login ({number})" for number in range(2, 10)]
