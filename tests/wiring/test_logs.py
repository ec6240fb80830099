"""Log records are one line each, with their facts, whoever wrote them."""

from __future__ import annotations

import json
import logging
import logging.config

import pytest
import structlog
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from forkhost.logs import LogFormat, logging_settings
from forkhost.middleware import RequestContextMiddleware


@pytest.fixture
def stderr_logging() -> None:
    """The production configuration in place of the tests'."""
    root = logging.getLogger()
    before = list(root.handlers), root.level
    logging.config.dictConfig(logging_settings(LogFormat.JSON, "INFO"))
    yield
    root.handlers[:], root.level = before


@pytest.mark.usefixtures("stderr_logging")
def test_records_of_both_kinds_are_json_lines_with_their_exception(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.get_logger("tests").info("fork_committed", operation_id="o1")
    try:
        raise ZeroDivisionError("why")
    except ZeroDivisionError:
        logging.getLogger("tests").exception("it failed: %s", "x")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["event"], first["operation_id"], first["level"], first["logger"]) == (
        *("fork_committed", "o1", "info"),
        "tests",
    )
    assert second["event"] == "it failed: x"
    assert "ZeroDivisionError: why" in second["exception"]


@pytest.mark.usefixtures("stderr_logging")
def test_what_a_request_logs_names_the_request(capsys: pytest.CaptureFixture[str]) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        structlog.get_logger("tests").info("seen")
        return HttpResponse()

    response = RequestContextMiddleware(view)(RequestFactory().get("/"))
    structlog.get_logger("tests").info("afterwards")
    inside, outside = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert inside["http_request_id"] == response["X-Request-Id"]
    assert "http_request_id" not in outside
