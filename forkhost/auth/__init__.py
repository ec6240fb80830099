"""Who is asking: bearer tokens for programs, the browser's session for pages."""
