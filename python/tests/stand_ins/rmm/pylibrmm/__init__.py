"""Streams are in a module of their own."""
