"""Key groups that move from owner to owner (sections 4.5, 5 and 7.2 to 7.5): how late their windows come, and what it
costs.
"""
