"""Admission plugins: reading the request, refusing it, patching its object."""

import json

from componentize_py_types import Err
from wit_world.imports.types import Denial, Request

from . import loads


def object_of(request: Request) -> dict:
    """The new object. A request without one, or with one that is no JSON object, is refused with 400."""
    try:
        value = loads(request.object)
    except (ValueError, TypeError) as error:
        raise bad_request(f"cannot read the object: {error}") from None
    if not isinstance(value, dict):
        raise bad_request("the object is no JSON object")
    return value


def metadata_of(value: dict) -> dict:
    """`metadata` of an object, whose `labels` and `annotations` are maps if they are there."""
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        raise bad_request("the object has no metadata")
    for name in ("labels", "annotations"):
        if not isinstance(metadata.get(name) or {}, dict):
            raise bad_request(f"metadata.{name} is no map")
    return metadata


def denied(code: int, reason: str, message: str) -> Err:
    """To be raised: a refusal with an HTTP code of 400 or more and the whole message for the user."""
    return Err(Denial(code, reason, message, None, [], 0))


def forbidden(request: Request, why: str) -> Err:
    """To be raised: a 403 in Kubernetes' form, `pods "web" is forbidden: <why>`."""
    of = request.resource
    resource = f"{of.resource}.{of.group}" if of.group else of.resource
    return denied(403, "Forbidden", f'{resource} "{request.name or "Unknown"}" is forbidden: {why}')


def bad_request(message: str) -> Err:
    """To be raised: a 400."""
    return denied(400, "BadRequest", message)


class Patch:
    """A JSON patch (RFC 6902) under construction. Paths are given as unescaped segments."""

    def __init__(self):
        self._operations = []

    def add(self, path: list[str], value) -> "Patch":
        """Adds a member, replacing it if present, or inserts into a list; the segment `-` appends."""
        return self._push("add", path, {"value": value})

    def remove(self, path: list[str]) -> "Patch":
        """Removes an existing value."""
        return self._push("remove", path, {})

    def __str__(self) -> str:
        """Its JSON form, empty if it changes nothing."""
        return json.dumps(self._operations) if self._operations else ""

    def _push(self, op: str, path: list[str], more: dict) -> "Patch":
        segments = "".join("/" + s.replace("~", "~0").replace("/", "~1") for s in path)
        self._operations.append({"op": op, "path": segments, **more})
        return self
