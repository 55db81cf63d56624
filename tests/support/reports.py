"""What a report holds: it is packed for the scripts in it."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any


def held_by(page: Path) -> dict[str, Any]:
    """All that a report holds, by what the scripts ask for."""
    text = page.read_text(encoding="utf-8")
    _, _, rest = text.partition('<script type="application/json" id="frozen">')
    data, _, _ = rest.partition("</script>")
    frozen = json.loads(data)
    found = {}
    for key, packed in frozen["held"].items():
        found[key] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return found
