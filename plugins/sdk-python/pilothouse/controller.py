"""Controllers: objects as dictionaries. What the cluster refuses is raised as the `Err` of a reconcile, which is retried."""

import json

from componentize_py_types import Err
from wit_world.imports import cluster
from wit_world.imports.cluster import GroupVersionResource


def get(of: GroupVersionResource, namespace: str, name: str) -> dict | None:
    """None if it is not there."""
    try:
        return json.loads(cluster.get(of, namespace, name))
    except Err as refusal:
        if refusal.value.code == 404:
            return None
        raise failed(refusal) from None


def list_all(of: GroupVersionResource, namespace: str = "", labels: str = "", fields: str = "") -> list[dict]:
    """Selectors in Kubernetes' syntax; an empty namespace means all."""
    return [json.loads(one) for one in _asked(cluster.list, of, namespace, labels, fields)]


def create(of: GroupVersionResource, namespace: str, value: dict) -> dict:
    """The created object."""
    return json.loads(_asked(cluster.create, of, namespace, _bytes(value)))


def update(of: GroupVersionResource, namespace: str, value: dict) -> dict:
    """The updated object; refused with Conflict if the given one is stale."""
    return json.loads(_asked(cluster.update, of, namespace, value["metadata"]["name"], _bytes(value)))


def failed(refusal: Err) -> Err:
    """To be raised by `reconcile`: what the cluster refused."""
    return Err(f"{refusal.value.reason}: {refusal.value.message}")


def _asked(call, *arguments):
    try:
        return call(*arguments)
    except Err as refusal:
        raise failed(refusal) from None


def _bytes(value: dict) -> bytes:
    return json.dumps(value).encode()
