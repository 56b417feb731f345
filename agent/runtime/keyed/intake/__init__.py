"""Takes events that other systems send, checks them, and has them inserted into the elements of their job. It may
import `elements`, `logical_nodes`, `messages` and `model`.
"""
