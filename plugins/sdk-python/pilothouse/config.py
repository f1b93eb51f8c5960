"""The plugin's configuration. Its world must import pilothouse:host/config."""

import json

# Modules are imported when the component is made: later there are no files to import from.
from wit_world.imports import config as host


def config() -> dict:
    """`spec.config` of the Plugin object."""
    return json.loads(host.get())
