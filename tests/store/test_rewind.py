"""A history that was changed outside goes on in a new log; whoever shows the old one keeps it."""

from __future__ import annotations

import pytest

from sessions import history, store
from sessions.errors import InvalidForkBoundary, StaleSession
from sessions.models import Segment, Session, Workspace
from tests.store.histories import fresh, hosted, open_turn, shown, texts, turn


@pytest.fixture
def source(workspace: Workspace) -> Session:
    """Three settled turns of four events."""
    session = hosted(workspace)
    store.append(session.pk, [*turn(1), *turn(2), *turn(3)])
    return fresh(session)


def test_children_and_grandchildren_keep_what_they_had(source: Session) -> None:
    child = store.fork(source.pk)
    grandchild = store.fork(child.pk, 8)
    before = shown(child), shown(grandchild)
    store.rewind(source.pk, 4)
    store.append(source.pk, turn(7))
    assert texts(source) == ["prompt 1", "answer 1", "prompt 7", "answer 7"]
    assert (shown(child), shown(grandchild)) == before


def test_the_revision_rises_and_expectations_become_stale(source: Session) -> None:
    rewound = store.rewind(source.pk, 4)
    assert (rewound.history_revision, rewound.last_seq, rewound.turn_count) == (1, 4, 1)
    with pytest.raises(StaleSession):
        store.append(source.pk, turn(9), expected_revision=0)
    store.append(source.pk, turn(9), expected_revision=1, expected_last_seq=4)


@pytest.mark.parametrize(("through", "kept"), [(0, 0), (1, 0), (3, 0), (4, 4), (5, 4), (7, 4), (8, 8), (11, 8)])
def test_a_place_inside_a_turn_is_pulled_back_to_its_start(source: Session, through: int, kept: int) -> None:
    rewound = store.rewind(source.pk, through)
    assert (rewound.last_seq, rewound.turn_count) == (kept, kept // 4)
    store.append(source.pk, turn(9))
    assert history.turns(fresh(source))[-1].ordinal == kept // 4 + 1


def test_the_present_end_is_no_rewind(source: Session) -> None:
    assert store.rewind(source.pk, 12).history_revision == 0
    assert Segment.objects.count() == 1


def test_an_open_turn_is_taken_back(source: Session) -> None:
    store.append(source.pk, open_turn(4))
    rewound = store.rewind(source.pk, fresh(source).last_seq)
    assert (rewound.last_seq, rewound.activity) == (12, "idle")
    store.append(source.pk, [*open_turn(5), store.TurnEnd(9, "completed")])
    assert history.turns(fresh(source))[-1].prompt == "prompt 5"


@pytest.mark.parametrize("through", [-1, 13])
def test_a_place_that_does_not_exist_is_refused(source: Session, through: int) -> None:
    with pytest.raises(InvalidForkBoundary):
        store.rewind(source.pk, through)


def test_a_fork_rewound_into_its_seed_inherits_less(source: Session) -> None:
    child = store.fork(source.pk, 8)
    store.append(child.pk, turn(6))
    rewound = store.rewind(child.pk, 4)
    assert (rewound.seed_length, rewound.last_seq) == (4, 4)
    before = [view.id for view in history.turns(rewound)]
    store.append(child.pk, turn(7))
    views = history.turns(fresh(child))
    assert [view.inherited for view in views] == [True, False]
    assert [view.id for view in views][:1] == before
    assert texts(source)[-2:] == ["prompt 3", "answer 3"]


def test_own_turns_keep_their_ids_and_new_ones_get_others(source: Session) -> None:
    before = [view.id for view in history.turns(source)]
    store.rewind(source.pk, 4)
    store.append(source.pk, [*turn(8), *turn(9)])
    after = [view.id for view in history.turns(fresh(source))]
    assert after[0] == before[0]
    assert set(after[1:]).isdisjoint(before)


def test_rewinding_again_and_again_leaves_one_gapless_history(source: Session) -> None:
    for number in range(4, 12):
        store.append(source.pk, [*turn(number), store.NewEvent("context", 1, {"text": "c"})])
        store.rewind(source.pk, fresh(source).last_seq - 2)
        shown(source)
    assert texts(source) == [text for n in (1, 2, 3) for text in (f"prompt {n}", f"answer {n}")]
    child = store.fork(source.pk)
    assert texts(child) == texts(source)


def test_a_rewound_turns_provider_id_can_be_bound_again(source: Session) -> None:
    store.rewind(source.pk, 4)
    store.append(source.pk, turn(2))
    assert [view.binding_state for view in history.turns(fresh(source))] == ["bound", "bound"]
