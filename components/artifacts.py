"""Artifact types of our own, beside TFX's standard ones."""

from tfx.types.artifact import Artifact


class IngestReport(Artifact):
    """What became of every raw row: `report.json` (counts) and `quarantine.jsonl` (bad rows with their reasons)."""

    TYPE_NAME = "bertline.IngestReport"


class Vocabulary(Artifact):
    """`vocab.txt`, one WordPiece a line; a token's id is its line."""

    TYPE_NAME = "bertline.Vocabulary"
