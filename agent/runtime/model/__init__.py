"""Plain values of the runtime: panes and runs, contributors, epochs, bundles and mandates."""
