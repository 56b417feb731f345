"""Sessions of Spark, and the Java they need. A master's address comes in, a session goes out. Imports nothing else of
`elf.batch`.
"""
