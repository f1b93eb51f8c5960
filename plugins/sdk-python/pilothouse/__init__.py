"""Helpers for Pilothouse plugins in Python: one module per family. They sit on the modules that componentize-py makes
from wit/, and hide nothing of those."""

import json
import re

# CPython's reader of JSON recurses on the sandbox's small stack: what is deeper is refused before it is read.
_DEEPEST = 200
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


def loads(document: bytes):
    """The value of a JSON document; ValueError if it is none or nested deeper than 200."""
    depth = 0
    for bracket in _BRACKETS.finditer(document):
        first = document[bracket.start()]
        if first in b"[{":
            depth += 1
            if depth > _DEEPEST:
                raise ValueError("the document is nested too deeply")
        elif first in b"]}":
            depth -= 1
    return json.loads(document)

