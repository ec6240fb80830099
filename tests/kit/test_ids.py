"""Ids compare as their callers mean them."""

from __future__ import annotations

import uuid

import pytest

from forkhost.kit.ids import IdConverter, normalise_request_id, parse_id

SOME = uuid.UUID("0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d")
NIL = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("text", [str(SOME), str(SOME).upper()])
def test_our_ids_are_read_in_any_case(text: str) -> None:
    assert parse_id(text) == SOME
    assert IdConverter().to_python(text) == SOME


@pytest.mark.parametrize("text", ["", NIL, SOME.hex, f"{{{SOME}}}", f"urn:uuid:{SOME}", f"{SOME}\n", f"{SOME}0", "x"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_id(text)


def test_a_request_id_that_looks_like_a_uuid_compares_in_any_case() -> None:
    assert normalise_request_id(str(SOME).upper()) == str(SOME)


@pytest.mark.parametrize("text", ["Build-17", "Ä 1", SOME.hex.upper(), "x" * 255])
def test_any_other_request_id_is_kept_as_it_is(text: str) -> None:
    assert normalise_request_id(text) == text


@pytest.mark.parametrize("text", ["", NIL, "x" * 256, "a\nb", "a\x00b", "\u2028"])
def test_an_unusable_request_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        normalise_request_id(text)
