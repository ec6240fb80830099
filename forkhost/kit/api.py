"""What every view and body of the public API has in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

from django.contrib.auth.models import User
from django.utils.cache import patch_vary_headers
from rest_framework import serializers
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from forkhost.kit.json_body import ApiJSONParser, ApiJSONRenderer
from forkhost.kit.problems import FieldError, Problem, invalid_field
from forkhost.kit.scopes import Scope

# The largest number both databases and every JSON reader keep exact.
LARGEST_INTEGER = 2**53 - 1

INSUFFICIENT_SCOPE = "insufficient_scope"
UNKNOWN_FIELD = "unknown_field"
INVALID_PARAMETER = "invalid_parameter"


class ScopePermission(BasePermission):
    """Lets signed-in callers pass whose token, if they came with one, holds the scope of the method.

    A view names the scope each of its methods needs in ``scopes``; a method it does not name is not answered at all, so
    it passes on to the 405. A browser's session holds every scope: what its user may see and do is decided by
    memberships, as on the pages.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not (request.user and request.user.is_authenticated):
            return False
        scopes: Mapping[str, Scope] = getattr(view, "scopes", {})
        method = "GET" if request.method == "HEAD" else str(request.method)
        needed = scopes.get(method)
        if needed is None or _held(request.auth, needed):
            return True
        raise Problem(
            INSUFFICIENT_SCOPE,
            403,
            f"This token lacks the scope {needed.value}.",
            headers={"WWW-Authenticate": f'Bearer error="{INSUFFICIENT_SCOPE}", scope="{needed.value}"'},
        )


def _held(auth: Any, needed: Scope) -> bool:
    return auth is None or needed.value in auth.scopes


class AlwaysJSON(BaseContentNegotiation):
    """Every answer is JSON, whatever ``Accept`` says; a body is JSON or refused."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        return next((parser for parser in parsers if _same_type(parser.media_type, request.content_type)), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, str(renderer.media_type)


def _same_type(media_type: str | None, content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == media_type


class ApiView(APIView):
    """One resource. ``scopes`` names the scope each method needs; answers are never kept by caches."""

    permission_classes = (ScopePermission,)
    parser_classes = (ApiJSONParser,)
    renderer_classes = (ApiJSONRenderer,)
    content_negotiation_class = AlwaysJSON
    metadata_class = None
    scopes: ClassVar[Mapping[str, Scope]] = {}

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        final = super().finalize_response(request, response, *args, **kwargs)
        final["Cache-Control"] = "no-store"
        patch_vary_headers(final, ["Authorization", "Cookie"])
        return final


def caller(request: Request) -> User:
    """The signed-in user; views behind :class:`ScopePermission` have no other."""
    return cast("User", request.user)


class StrictSerializer(serializers.Serializer[Any]):
    """A body that refuses members it does not know, by name."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = [name for name in data if name not in self.fields]
            if unknown:
                raise serializers.ValidationError(
                    {name: serializers.ErrorDetail("This field does not exist.", UNKNOWN_FIELD) for name in unknown}
                )
        return super().to_internal_value(data)


class StrictIntegerField(serializers.IntegerField):
    """A JSON integer and nothing that merely looks like one: no text, no fraction, no boolean. Defaults to 0 and up.

    ``5.0`` is 5, as JSON Schema has it and as callers whose language knows one kind of number write it.
    """

    def __init__(self, *, min_value: int = 0, max_value: int = LARGEST_INTEGER, **kwargs: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **kwargs)

    def to_internal_value(self, data: Any) -> int:
        number = whole(data)
        if not isinstance(number, int) or isinstance(number, bool):
            self.fail("invalid")
        return number


def whole(value: Any) -> Any:
    """A float without a fraction as the integer it is, everything else unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class StrictCharField(serializers.CharField):
    """JSON text and nothing that could be turned into it."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class StrictBooleanField(serializers.BooleanField):
    """``true`` or ``false``."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


def body_of(request: Request, serializer: type[StrictSerializer]) -> dict[str, Any]:
    """The validated body. Raises ValidationError, which becomes a 400 that names the fields."""
    checked = serializer(data=request.data)
    checked.is_valid(raise_exception=True)
    return cast("dict[str, Any]", checked.validated_data)


def query_integer(request: Request, name: str, *, default: int, least: int = 0, most: int = LARGEST_INTEGER) -> int:
    """An integer of the query string. Raises a 400 naming the parameter."""
    text = request.query_params.get(name)
    if text is None:
        return default
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_INTEGER))
    if not digits or not least <= int(text) <= most:
        raise invalid_parameter(name, f"{name} has to be a whole number from {least} to {most}.")
    return int(text)


def invalid_parameter(name: str, detail: str) -> Problem:
    """A 400 that blames one parameter of the query string."""
    return invalid_field(name, INVALID_PARAMETER, detail)


def known_parameters(request: Request, *names: str) -> None:
    """Refuse what is not a parameter of this resource, and any given twice. Raises a 400 naming them."""
    params = request.query_params
    errors = [
        FieldError(name, INVALID_PARAMETER, "This parameter does not exist here.")
        for name in params
        if name not in names
    ]
    errors += [
        FieldError(name, INVALID_PARAMETER, "This parameter is given more than once.")
        for name in params
        if name in names and len(params.getlist(name)) > 1
    ]
    if errors:
        raise Problem("invalid_request", 400, f"{errors[0].pointer}: {errors[0].detail}", errors=errors)
