"""Plain values of the runtime: panes and runs, contributors, epochs, bundles and mandates. Messages and state are
made of them. It may import no other package of the runtime.
"""
