"""Markdown as clean HTML, once per content, within a page's time."""

from __future__ import annotations

import pytest

from sessions.pages import rendering
from sessions.pages.rendering import RenderedCache, Renderer, markdown


def test_the_usual_markdown_is_rendered() -> None:
    html = markdown("# Title\n\n*a* **b** `c` ~~d~~\n\n- x\n\n| h |\n|---|\n| v |\n\n> q\n\n3. three")
    for piece in ("<h4", "<em>a</em>", "<strong>b</strong>", "<code>c</code>", "<s>d</s>", "<li>x</li>", "<td>v</td>"):
        assert piece in html
    assert '<ol start="3">' in html


def test_code_is_coloured_with_classes_never_with_styles() -> None:
    html = markdown("```python\ndef f(): return 1\n```")
    assert '<span class="k">def</span>' in html
    assert "style=" not in html


@pytest.mark.parametrize("language", ["nosuchlanguage", "../../etc", '"><script>', ""])
def test_code_in_an_unknown_language_is_shown_as_it_is(language: str) -> None:
    assert "&lt;b&gt;" in markdown(f"```{language}\n<b>\n```")


@pytest.mark.parametrize(
    "link", ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "vbscript:x", "data:text/html,x", "file:///etc/passwd"]
)
def test_links_lead_to_the_web_or_to_mail_alone(link: str) -> None:
    assert "href" not in markdown(f"[text]({link})")
    assert 'href="https://example.org"' in markdown("[text](https://example.org)")
    assert "noopener" in markdown("[text](https://example.org)")


def test_remote_pictures_become_links() -> None:
    html = markdown("![a chart](https://example.org/chart.png)")
    assert "<img" not in html
    assert ">[a chart]</a>" in html


def test_deeply_nested_markdown_ends() -> None:
    assert markdown("> " * 5_000 + "deep")
    assert markdown("[" * 5_000 + "x" + "]" * 5_000)
    assert markdown("*" * 20_000)


def test_a_content_is_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(rendering, "cache", RenderedCache(1_000_000))
    monkeypatch.setattr(rendering, "markdown", lambda text: calls.append(text) or "<p>done</p>")
    assert Renderer()("same") == Renderer()("same") == "<p>done</p>"
    assert calls == ["same"]


def test_a_page_without_time_left_gets_what_is_known_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "cache", RenderedCache(1_000_000))
    Renderer(seconds=1)("known")
    late = Renderer(seconds=0)
    assert late("known") == "<p>known</p>\n"
    assert late("not known") is None


def test_the_cache_forgets_what_was_not_used_for_longest() -> None:
    cache = RenderedCache(1_000)
    for number in range(20):
        cache.put(bytes([number]), "x" * 100)
        cache.get(bytes([0]))
    assert cache.held <= 1_000
    assert cache.get(bytes([0])) is not None
    assert cache.get(bytes([1])) is None
    assert cache.get(bytes([19])) is not None


def test_a_giant_is_not_kept() -> None:
    cache = RenderedCache(1_000)
    cache.put(b"giant", "x" * 500)
    assert cache.get(b"giant") is None
