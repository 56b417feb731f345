"""Where events come from: files and standard input, read as blocks of whole lines."""

from agent.sources.blocks import BLOCK_BYTES, LINE_BYTES_MAX, Block, Origin
from agent.sources.errors import SourceError
from agent.sources.file.files import STANDARD_INPUT, Progress, SourceFile, read_blocks
from agent.sources.records import Record, irregular_records, read_record

__all__ = [
    "BLOCK_BYTES",
    "LINE_BYTES_MAX",
    "STANDARD_INPUT",
    "Block",
    "Origin",
    "Progress",
    "Record",
    "SourceError",
    "SourceFile",
    "irregular_records",
    "read_blocks",
    "read_record",
]
