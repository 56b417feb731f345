"""Sources of events, read as blocks of whole lines.

`reader` has the protocols between sources and feeds, `registry` a row for each source; each source is a file or folder
of its own. Bytes come in, `Block`s go out. Imports nothing else of the product.
"""

from agent.sources.blocks import BLOCK_BYTES, LINE_BYTES_MAX, Block, Origin
from agent.sources.errors import SourceError
from agent.sources.file.files import STANDARD_INPUT, Progress, SourceFile, read_blocks
from agent.sources.file.ranges import Reading
from agent.sources.records import Record, irregular_records, read_record

__all__ = [
    "BLOCK_BYTES",
    "LINE_BYTES_MAX",
    "STANDARD_INPUT",
    "Block",
    "Origin",
    "Progress",
    "Reading",
    "Record",
    "SourceError",
    "SourceFile",
    "irregular_records",
    "read_blocks",
    "read_record",
]
