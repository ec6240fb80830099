"""A transcript is written by others. It can be read, and it can do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client
from django.urls import reverse

from sessions import store
from sessions.choices import EventKind
from sessions.models import Session
from tests.agents.sample_history import Talk, home_of, imported
from tests.pages.support import all_tags, html, session_page, words

if TYPE_CHECKING:
    from tests.conftest import People

SCRIPT = '<script>window.hacked = "yes"</script><img src=x onerror="window.hacked=1"><svg onload=alert(1)>'
MARKDOWN = """[click](javascript:alert(1)) [data](data:text/html,<script>alert(1)</script>) <javascript:alert(1)>
[split](java
script:alert(1)) [entity](&#106;avascript:alert(1)) ![pixel](https://evil.example/pixel.png) ![x](javascript:alert(1))

<a href="https://ok.example" onclick="alert(1)">raw</a> <style>body{display:none}</style> <form action=//evil><input></form>

```html
<script>alert(1)</script>
```

```python" onload="alert(1)
x = 1
```

[ok](https://ok.example/ "a\\" onmouseover=alert(1)")
"""
ODD = "NUL:\x00 lone:\ud83d. rtl:\u202eabc\u202c sep:\u2028\u0085 emoji:😀 ansi:\x1b[31mred\x1b[0m combining:e\u0301 bell:\x07"
KINDS = [
    (EventKind.MESSAGE_ASSISTANT, "text"),
    (EventKind.REASONING, "text"),
    (EventKind.CONTEXT, "text"),
    (EventKind.COMPACTION, "text"),
    (EventKind.NOTE, "text"),
]
HARMLESS = ("/", "?", "#", "https://ok.example", "https://evil.example/pixel.png")
# Elements of the page's own that run or load something, by where they come from.
OWN_SCRIPTS = {"/static/django_htmx/htmx-2.min.js", "/static/js/forkhost.js"}


def hostile(people: People, text: str) -> Session:
    """A session with this text in every place a transcript can fill."""
    session = imported(home_of(people.workspace), text, cwd=text, preview=text[:200])
    call = {"callId": text, "name": text, "input": {"command": text, "more": {text: [text]}}}
    result = {"callId": text, "output": text, "isError": False}
    asked: dict[str, Any] = {"interactionId": "i", "kind": "question", "text": text}
    records = [(kind, {key: text}) for kind, key in KINDS]
    Talk(session).say(
        text,
        *records,
        (EventKind.TOOL_CALL, call),
        (EventKind.TOOL_RESULT, result),
        (EventKind.TOOL_RESULT, {"callId": "another", "output": text}),
        (EventKind.INTERACTION_ASKED, asked),
    )
    session.refresh_from_db()
    return session


def pages_of(session: Session) -> list[str]:
    """Every page that shows it."""
    records = [reverse("sessions:record", args=[session.pk, seq]) for seq in range(1, session.last_seq + 1)]
    return [
        reverse("sessions:list"),
        session_page(session),
        reverse("sessions:turn", args=[session.pk, 1]),
        reverse("operations:new_fork", args=[session.pk]) + "?latest=1",
        reverse("operations:compare", query={"a": str(session.pk), "b": str(session.pk)}),
        *records,
        reverse("sessions:rendered", args=[session.pk, 3]),
    ]


@pytest.mark.parametrize(
    "text", [SCRIPT, MARKDOWN, ODD + SCRIPT + MARKDOWN], ids=["tags", "markdown", "odd characters"]
)
def test_nothing_of_it_becomes_an_element_or_an_attribute_that_acts(reader: Client, people: People, text: str) -> None:
    session = hostile(people, text)
    for address in pages_of(session):
        page = reader.get(address)
        assert page.status_code == 200, address
        for tag, attrs in all_tags(page):
            where = (address, tag, attrs)
            assert tag not in ("iframe", "object", "embed", "base", "style", "math"), where
            assert tag != "script" or attrs.get("src") in OWN_SCRIPTS, where
            assert tag != "img", where
            assert not [name for name in attrs if name.startswith("on") or name in ("style", "srcdoc")], where
            target = (attrs.get("href") or attrs.get("src") or attrs.get("action") or "").strip().lower()
            assert not target or target.startswith(HARMLESS), where
            assert not target.startswith(("javascript:", "data:", "vbscript:", "//")), where


def test_every_page_forbids_inline_code(reader: Client, people: People) -> None:
    session = hostile(people, SCRIPT)
    for address in pages_of(session):
        policy = reader.get(address)["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "style-src 'self'" in policy
        assert "unsafe" not in policy


def test_odd_characters_are_shown_or_replaced_and_never_break_a_page(reader: Client, people: People) -> None:
    page = reader.get(session_page(hostile(people, ODD)))
    text = html(page)
    assert "\x00" not in text
    assert "emoji:😀" in words(page)
    assert "ansi:red" in words(page)
    assert "lone:\ufffd." in words(page)


def test_text_in_another_direction_stays_in_its_own_box(reader: Client, people: People) -> None:
    page = reader.get(session_page(hostile(people, "\u202eevil\u202c")))
    boxes = [attrs for tag, attrs in all_tags(page) if "words" in (attrs.get("class") or "")]
    assert boxes
    assert all(attrs.get("dir") == "auto" for attrs in boxes)
    assert "<h1><bdi>" in html(page)


def test_a_huge_message_makes_a_small_page_and_can_be_read_whole(reader: Client, people: People) -> None:
    session = imported(home_of(people.workspace), "Huge")
    text = "word " * 400_000
    Talk(session).say("Go", (EventKind.MESSAGE_ASSISTANT, {"text": text}), (EventKind.REASONING, {"text": text}))
    page = reader.get(session_page(session))
    assert len(page.content) < 250_000
    assert "Show all (1.9 MB)" in words(page)
    whole = reader.get(reverse("sessions:record", args=[session.pk, 3]))
    assert words(whole).count("word") >= 399_000


def test_raw_records_are_saved_never_shown(reader: Client, people: People) -> None:
    session = hostile(people, SCRIPT)
    response = reader.get(reverse("sessions:raw", args=[session.pk, 3]))
    assert response["Content-Type"] == "application/json"
    assert response["Content-Disposition"].startswith("attachment")
    assert response["X-Content-Type-Options"] == "nosniff"


def test_a_picture_is_shown_only_from_the_store_and_only_as_a_picture(reader: Client, people: People) -> None:
    from sessions import attachments

    page = b"<script>alert(1)</script>"
    digest = attachments.store_bytes(page, media_type="text/html")
    session = imported(home_of(people.workspace), "Pictures")
    images = [
        {"mediaType": "text/html", "sha256": digest},
        {"mediaType": "image/svg+xml", "sha256": digest},
        {"mediaType": "image/png", "sha256": digest},
    ]
    Talk(session).say("Look", (EventKind.MESSAGE_ASSISTANT, {"text": "Here.", "images": images}))

    def picture(position: int) -> Any:
        return reader.get(reverse("sessions:image", args=[session.pk, 3, position]))

    assert [picture(position).status_code for position in range(4)] == [404, 404, 200, 404]
    assert picture(2)["Content-Type"] == "image/png"
    assert picture(2)["X-Content-Type-Options"] == "nosniff"


def test_titles_of_forks_are_escaped_too(reader: Client, people: People) -> None:
    session = hostile(people, SCRIPT)
    store.rename(session.pk, SCRIPT)
    page = html(reader.get(session_page(session)))
    assert "<script>window" not in page
    assert "&lt;script&gt;window" in page
