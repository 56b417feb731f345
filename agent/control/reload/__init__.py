"""Puts other configurations in force while the agent runs. Imports the configuration and the messages of clients."""
