"""A module that cannot be imported."""

value = 1 / 0
