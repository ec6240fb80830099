"""Django's settings, read from the environment once; a value that cannot be used stops the start with a sentence.

``DATABASE_URL``            default: SQLite in the data folder; ``postgresql://...`` for a fleet
``FORKHOST_DATA``           data folder, default: ``$XDG_DATA_HOME/forkhost``
``FORKHOST_PUBLIC_URL``     the origin browsers use; https turns every secure setting on
``FORKHOST_ALLOWED_HOSTS``  further host names, separated by commas
``FORKHOST_SECRET_KEY``     default: generated once into the data folder
``FORKHOST_EMAIL_URL``      ``smtp+tls://user:password@host:587``; without it nobody is told by email
``FORKHOST_EMAIL_FROM``     whom mails come from
``FORKHOST_LEASE_SECONDS``  after how long without a sign of life a worker's forks are another's, default: 60
``FORKHOST_STALL_SECONDS``  after how long PostgreSQL ends a transaction whose process stands still, default: 10; 0: never
``FORKHOST_PURGE_AFTER_DAYS``  after how long deleted sessions are removed for good, default: 0, never
``FORKHOST_DB_POOL``        psycopg's connection pool instead of one connection a thread
``FORKHOST_DEBUG``, ``FORKHOST_LOG_LEVEL``, ``FORKHOST_LOG_FORMAT`` (``json`` or ``console``)

``DATABASE_URL``, ``FORKHOST_SECRET_KEY`` and ``FORKHOST_EMAIL_URL`` may be given as files (``DATABASE_URL_FILE``, ...).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django_stubs_ext
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from environs import EnvError, FileAwareEnv

from forkhost import configuration
from forkhost.logs import LogFormat, configure_structlog, logging_settings

# ModelAdmin[...] and QuerySet[...] are written with their type arguments at run time.
django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent

env = FileAwareEnv()
try:
    DEBUG = env.bool("FORKHOST_DEBUG", False)
    LOG_LEVEL = env.str("FORKHOST_LOG_LEVEL", "INFO").upper()
    LOG_FORMAT = env.str("FORKHOST_LOG_FORMAT", LogFormat.CONSOLE if sys.stderr.isatty() else LogFormat.JSON).lower()
    _extra_hosts: list[str] = env.list("FORKHOST_ALLOWED_HOSTS", [])
    _pool = env.bool("FORKHOST_DB_POOL", False)
    _lease_seconds = env.float("FORKHOST_LEASE_SECONDS", 60.0)
    FORKHOST_STALL_SECONDS = env.float("FORKHOST_STALL_SECONDS", 10.0)
    _purge_after_days = env.float("FORKHOST_PURGE_AFTER_DAYS", 0.0)
    _database_url = env.str("DATABASE_URL", None)
    _secret_key = env.str("FORKHOST_SECRET_KEY", None)
    _email_url = env.str("FORKHOST_EMAIL_URL", "")
    DEFAULT_FROM_EMAIL = env.str("FORKHOST_EMAIL_FROM", "forkhost@localhost")
except EnvError as error:
    raise ImproperlyConfigured(f"The environment is not understood: {error}") from error
if LOG_LEVEL not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
    raise ImproperlyConfigured("FORKHOST_LOG_LEVEL has to be DEBUG, INFO, WARNING, ERROR or CRITICAL.")
if LOG_FORMAT not in list(LogFormat):
    raise ImproperlyConfigured("FORKHOST_LOG_FORMAT has to be json or console.")

FORKHOST_DATA = configuration.data_dir(env.str("FORKHOST_DATA", None), os.environ)
FORKHOST_PURGE_AFTER_DAYS = configuration.purge_after_days(_purge_after_days)
FORKHOST_LEASE_SECONDS = configuration.lease_seconds(_lease_seconds)
SECRET_KEY = configuration.secret_key(_secret_key, FORKHOST_DATA)
FORKHOST_PUBLIC_URL, _public_host, _https = configuration.public_url(env.str("FORKHOST_PUBLIC_URL", ""))

ALLOWED_HOSTS = [*configuration.LOOPBACK_HOSTS, *([_public_host] if _public_host else []), *_extra_hosts]
CSRF_TRUSTED_ORIGINS = [FORKHOST_PUBLIC_URL] if FORKHOST_PUBLIC_URL else []

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "csp",
    "django_filters",
    "django_htmx",
    "template_partials",
    "rest_framework",
    "drf_spectacular",
    "sessions.apps.SessionsConfig",
    "operations.apps.OperationsConfig",
    "forkhost.apps.ForkhostConfig",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "forkhost.middleware.RequestContextMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "forkhost.middleware.SignInRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "forkhost.urls"
WSGI_APPLICATION = "forkhost.wsgi.application"
ASGI_APPLICATION = "forkhost.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["template_partials.templatetags.partials"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Without ATOMIC_REQUESTS: on SQLite even a reading transaction would wait for the one writer.
DATABASES = {"default": configuration.database(_database_url, FORKHOST_DATA, pool=_pool)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

FORKHOST_EMAIL = bool(_email_url)
globals().update(configuration.email(_email_url))

LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

LANGUAGE_CODE = "en"
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = FORKHOST_DATA / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
MEDIA_ROOT = FORKHOST_DATA / "media"

SESSION_COOKIE_NAME = "forkhost_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_NAME = "forkhost_csrf"
CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
if _https:
    SECURE_SSL_REDIRECT = True
    # Prometheus on this machine asks the server itself, past the proxy that ends TLS.
    SECURE_REDIRECT_EXEMPT = [r"^metrics$"]
    # The server listens on loopback behind the proxy that ends TLS; that proxy has to set or strip this header.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
# Sub-domains and the browsers' preload list are decisions of whoever owns the domain, not of one program on it.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    },
}

REST_FRAMEWORK = {
    "EXCEPTION_HANDLER": "forkhost.kit.problems.exception_handler",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "forkhost.auth.authentication.BearerAuthentication",
        "forkhost.auth.authentication.BrowserAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "forkhost",
    "DESCRIPTION": "Hosts coding agent sessions and forks them durably at a settled turn.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/v1",
    "CAMELIZE_NAMES": True,
    "COMPONENT_SPLIT_PATCH": False,
    "PATH_CONVERTER_OVERRIDES": {"id": {"type": "string", "format": "uuid"}},
    "ENUM_ADD_EXPLICIT_BLANK_NULL_CHOICE": True,
    # Several choices are called kind, state or status; clients generate their types from these names.
    "ENUM_NAME_OVERRIDES": {
        "ClaimKind": "sessions.choices.ClaimKind",
        "EventKind": "sessions.choices.EventKind",
        "ForkContract": "sessions.choices.ForkContract",
        "InteractionKind": "sessions.choices.InteractionKind",
        "InteractionState": "sessions.choices.InteractionState",
        "OperationPhase": "operations.choices.Phase",
        "OperationStatus": "operations.choices.PublicStatus",
        "RecordKind": "sessions.api.bodies.RECORD_KIND_CHOICES",
        "SessionKind": "sessions.choices.SessionKind",
        "TurnEndKind": "sessions.api.bodies.TURN_END_CHOICES",
        "TurnPhase": "sessions.choices.TurnPhase",
        "TurnStartKind": "sessions.api.bodies.TURN_START_CHOICES",
    },
}

LOGGING = logging_settings(LogFormat(LOG_FORMAT), LOG_LEVEL)
configure_structlog()
