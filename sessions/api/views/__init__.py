"""The resources of the API that tell what happened."""
