"""Signing in and out, and the two settings of the pages."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from forkhost.models import SignInLink
from forkhost.templatetags.chrome import SHORTCUTS_COOKIE, SHORTCUTS_OFF, THEME_COOKIE, THEMES

BACKEND = "django.contrib.auth.backends.ModelBackend"
YEAR = 365 * 24 * 3600


class SignIn(LoginView):
    """By user name and password."""

    template_name = "forkhost/sign_in.html"
    redirect_authenticated_user = True


class SignOut(LogoutView):
    """POST only."""


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_with_link(request: HttpRequest, secret: str) -> HttpResponse:
    """A one-time link. Opening it shows a button, because mail scanners and previews open links too; pressing it
    redeems the link, once.
    """
    if request.method != "POST":
        return render(request, "forkhost/sign_in_link.html")
    user = SignInLink.redeem(secret)
    if user is None:
        return render(request, "forkhost/sign_in_link.html", {"spent": True}, status=410)
    login(request, user, backend=BACKEND)
    return redirect(settings.LOGIN_REDIRECT_URL)


@login_not_required
@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    """Remember the theme and whether single keys act, in cookies, and go back to where the reader was."""
    response = HttpResponseRedirect(_back(request))
    theme = request.POST.get("theme")
    if theme in THEMES:
        _remember(response, THEME_COOKIE, theme)
    shortcuts = request.POST.get("shortcuts")
    if shortcuts in ("on", SHORTCUTS_OFF):
        _remember(response, SHORTCUTS_COOKIE, shortcuts)
    return response


def _remember(response: HttpResponse, name: str, value: str) -> None:
    response.set_cookie(name, value, max_age=YEAR, samesite="Lax", httponly=True, secure=settings.SESSION_COOKIE_SECURE)


def _back(request: HttpRequest) -> str:
    target = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}, require_https=request.is_secure()):
        return target
    return reverse("sessions:list")
