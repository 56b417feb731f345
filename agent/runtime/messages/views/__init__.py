"""Messages that show people what agents and masters know."""
