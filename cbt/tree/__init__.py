"""The compressed buffer tree: raw rows come in, partial aggregates go out in order, or as a snapshot's bytes. Imports
`cbt.layout`, `cbt.codec` and what lies below."""
