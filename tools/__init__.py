"""Tools of the project's maintainers."""
