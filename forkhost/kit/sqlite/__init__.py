"""Django's SQLite with a fair wait for the one write lock."""
