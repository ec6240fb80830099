"""Log records are one line each, with their facts, whoever wrote them."""

from __future__ import annotations

import io
import json
import logging
import logging.config
from collections.abc import Iterator

import pytest
import structlog
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from forkhost.logs import LogFormat, logging_settings
from forkhost.middleware import RequestContextMiddleware


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What production's formatter writes. (A whole dictConfig would close the handlers of pytest itself.)"""
    settings = logging_settings(LogFormat.JSON, "INFO")
    configurator = logging.config.DictConfigurator(settings)
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(configurator.configure_formatter(settings["formatters"]["structured"]))
    logging.getLogger().addHandler(handler)
    yield handler.stream
    logging.getLogger().removeHandler(handler)


def test_records_of_both_kinds_are_json_lines_with_their_exception(written: io.StringIO) -> None:
    structlog.get_logger("tests").info("fork_committed", operation_id="o1")
    try:
        raise ZeroDivisionError("why")
    except ZeroDivisionError:
        logging.getLogger("tests").exception("it failed: %s", "x")
    first, second = map(json.loads, written.getvalue().splitlines())
    assert (first["event"], first["operation_id"], first["level"], first["logger"]) == (
        *("fork_committed", "o1", "info"),
        "tests",
    )
    assert second["event"] == "it failed: x"
    assert "ZeroDivisionError: why" in second["exception"]


def test_what_a_request_logs_names_the_request(written: io.StringIO) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        structlog.get_logger("tests").info("seen")
        return HttpResponse()

    response = RequestContextMiddleware(view)(RequestFactory().get("/"))
    structlog.get_logger("tests").info("afterwards")
    inside, outside = map(json.loads, written.getvalue().splitlines())
    assert inside["http_request_id"] == response["X-Request-Id"]
    assert "http_request_id" not in outside
