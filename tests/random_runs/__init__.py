"""Random runs over the whole saga: whatever happens, in whatever order, judged after every step."""
