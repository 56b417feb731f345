"""The stages that run a plan: a plan and frames of events or results come in, frames and rows go out. Imports
`query.plan`, `query.functions` and what lies below."""
