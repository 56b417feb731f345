"""Requests of clients: submissions, questions, subscriptions, surveys of streams, and status."""
