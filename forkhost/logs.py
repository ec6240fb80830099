"""Structured logs: a constant event text, facts as keywords, one line a record on standard error."""

from __future__ import annotations

import enum
from typing import Any

import structlog


class LogFormat(enum.StrEnum):
    """How log records are written."""

    JSON = "json"
    CONSOLE = "console"


def _shared_processors() -> list[structlog.types.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def _renderers(log_format: LogFormat) -> list[structlog.types.Processor]:
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if log_format is LogFormat.JSON:
        return [remove_meta, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [remove_meta, structlog.dev.ConsoleRenderer(colors=False)]


def logging_settings(log_format: LogFormat, level: str) -> dict[str, Any]:
    """Django's ``LOGGING``: the standard library's records and structlog's take the same way out."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _shared_processors(),
                "processors": _renderers(log_format),
            },
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"level": "INFO", "handlers": [], "propagate": True},
            "django.server": {"level": "WARNING", "handlers": [], "propagate": True},
        },
    }


def configure_structlog() -> None:
    """Send structlog's records through the standard library, so that ``LOGGING`` decides about all of them."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
