"""Signing in and out, and the two settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client
from django.urls import reverse

from forkhost.models import SignInLink
from tests.pages.support import html, tags, words

if TYPE_CHECKING:
    from tests.conftest import People


def signed_in(client: Client) -> bool:
    """Whether the browser gets to see the sessions."""
    return client.get("/").status_code == 200


def test_a_password_signs_in_and_leads_to_where_one_wanted_to_go(client: Client, people: People) -> None:
    page = client.get(reverse("sign_in"), {"next": "/forks/"})
    assert {"name": "next", "type": "hidden", "value": "/forks/"} in tags(page, "input")
    response = client.post(reverse("sign_in"), {"username": "member", "password": "secret", "next": "/forks/"})
    assert response["Location"] == "/forks/"
    assert signed_in(client)


def test_a_wrong_password_is_refused_in_words_and_keeps_the_name(client: Client, people: People) -> None:
    page = client.post(reverse("sign_in"), {"username": "member", "password": "guess"})
    assert "correct username and password" in words(page)
    assert 'value="member"' in html(page)
    assert not signed_in(client)


def test_opening_a_link_signs_nobody_in_pressing_its_button_does_once(client: Client, people: People) -> None:
    address = reverse("sign_in_link", args=[SignInLink.issue(people.member)])
    assert client.get(address).status_code == 200
    assert not signed_in(client)
    assert client.post(address)["Location"] == "/"
    assert signed_in(client)
    other = Client()
    again = other.post(address)
    assert again.status_code == 410
    assert "This link does not work any more" in words(again)
    assert not signed_in(other)


def test_a_made_up_link_signs_nobody_in(client: Client, people: People) -> None:
    assert client.post(reverse("sign_in_link", args=["made-up"])).status_code == 410


def test_signing_out_is_a_post(reader: Client) -> None:
    assert reader.get(reverse("sign_out")).status_code == 405
    reader.post(reverse("sign_out"))
    assert not signed_in(reader)


@pytest.mark.parametrize("theme", ["system", "light", "dark"])
def test_the_theme_is_kept_and_rendered_by_the_server(reader: Client, theme: str) -> None:
    response = reader.post(reverse("preferences"), {"theme": theme, "next": "/forks/"})
    assert response["Location"] == "/forks/"
    assert f'data-theme="{theme}"' in html(reader.get("/"))


def test_shortcuts_can_be_switched_off(reader: Client) -> None:
    assert 'data-shortcuts="on"' in html(reader.get("/"))
    reader.post(reverse("preferences"), {"shortcuts": "off"})
    assert 'data-shortcuts="off"' in html(reader.get("/"))


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", ""])
def test_settings_lead_back_only_to_this_site(reader: Client, target: str) -> None:
    response = reader.post(reverse("preferences"), {"theme": "dark", "next": target})
    assert response["Location"] == "/"


def test_a_theme_that_does_not_exist_changes_nothing(reader: Client) -> None:
    reader.cookies["forkhost_theme"] = '"><script>'
    assert 'data-theme="system"' in html(reader.get("/"))
    reader.post(reverse("preferences"), {"theme": "neon"})
    assert 'data-theme="system"' in html(reader.get("/"))
