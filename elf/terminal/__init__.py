"""Text on a terminal: escaped, coloured, redrawn in place. Strings and rich's renderables come in. Imports nothing of
ELF.
"""
