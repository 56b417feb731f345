"""From events to sealed runs: feeds, watermarks, shared operators, and the pane stores they fill."""
