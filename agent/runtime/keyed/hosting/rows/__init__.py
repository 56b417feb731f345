"""Rows on their way from emitters to hosts: sessions, numbers, and what has come already."""
