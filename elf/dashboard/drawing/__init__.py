"""Pictures of what a page shows: plain values come in, SVG and options of charts go out. Knows no web toolkit."""
