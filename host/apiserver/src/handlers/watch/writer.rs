//! Events of a watch in the view and the media type agreed on.

use std::sync::Arc;

use bytes::Bytes;
use pilothouse_api::{Revision, SharedObject, Status, protobuf};
use pilothouse_storage::{CacheEvent, EventType};
use serde_json::json;

use super::outbox::Outbox;
use crate::{
    environment::{Environment, whole_seconds},
    handlers::view::{self, IncludeObject},
    negotiation::{Media, Negotiated, View},
    registry::Resource,
};

/// Writes events in the view agreed on.
pub(super) struct Writer {
    pub(super) resource: Arc<Resource>,
    pub(super) negotiated: Negotiated,
    pub(super) include: IncludeObject,
    pub(super) environment: Arc<dyn Environment>,
    /// Only the first table of a watch has columns.
    pub(super) columns_sent: bool,
    /// A frame may go out in parts.
    pub(super) may_split: bool,
}

impl Writer {
    /// A change, called `kind` by this watch.
    pub(super) fn event(
        &mut self,
        out: &mut Outbox,
        kind: EventType,
        event: &CacheEvent,
    ) -> Result<(), Status> {
        if self.negotiated.view == View::Whole && self.resource.strategy.conversion().is_none() {
            let shared = match self.negotiated.media {
                Media::Protobuf => {
                    let make = |object: &SharedObject| {
                        let frame = protobuf_frame(kind.as_str(), &object.bytes);
                        frame
                            .inspect_err(|error| tracing::error!(%error, "encoding an event"))
                            .ok()
                    };
                    let why = "an event cannot be written as protobuf";
                    event
                        .encoded(kind, make)
                        .ok_or_else(|| Status::internal(why))?
                }
                _ => event.frame(kind),
            };
            out.share(shared);
            return Ok(());
        }
        let shown = match kind {
            EventType::Deleted => event.departed(),
            EventType::Added | EventType::Modified => &event.object,
        };
        let served = self.resource.served(shown)?;
        self.object(out, kind, &served)
    }

    /// An object as it is.
    pub(super) fn object(
        &mut self,
        out: &mut Outbox,
        kind: EventType,
        object: &SharedObject,
    ) -> Result<(), Status> {
        let bytes = &object.bytes;
        let shown = match self.negotiated.view {
            View::Table => self.table(bytes)?,
            View::PartialObject | View::PartialObjectList => view::partial(bytes, self.negotiated)?,
            View::Whole => bytes.clone(),
        };
        self.frame(out, kind.as_str(), &shown)
    }

    /// One event in the media type agreed on.
    fn frame(&self, out: &mut Outbox, kind: &str, object: &Bytes) -> Result<(), Status> {
        match self.negotiated.media {
            Media::Protobuf => out.share(protobuf_frame(kind, object)?),
            _ if self.may_split => {
                out.copy(&json_head(kind));
                out.share(object.clone());
                out.copy(JSON_TAIL);
            }
            _ => out.share(json_frame(kind, object)),
        }
        Ok(())
    }

    fn table(&mut self, bytes: &Bytes) -> Result<Bytes, Status> {
        let columns = !std::mem::replace(&mut self.columns_sent, true);
        let object = self.resource.strategy.decode(bytes)?;
        let now = whole_seconds(self.environment.now());
        let mut table = view::table_head(&self.resource, self.negotiated, columns);
        table["metadata"]["resourceVersion"] = json!(object.metadata().resource_version);
        let row = view::row(
            &self.resource,
            &object,
            bytes,
            self.negotiated,
            self.include,
            now,
        )?;
        table["rows"] = json!([row]);
        Ok(table.to_string().into())
    }

    /// How far the client is. In a table it is a row like another.
    pub(super) fn bookmark(
        &mut self,
        out: &mut Outbox,
        revision: Revision,
        initial_events_end: bool,
    ) -> Result<(), Status> {
        let mut metadata = json!({ "resourceVersion": revision.to_string() });
        if initial_events_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let info = &self.resource.info;
        let object = json!({ "kind": info.kind, "apiVersion": info.gvr.api_version(), "metadata": metadata });
        let document = match self.negotiated.view {
            View::Table => {
                let mut table = view::table_head(&self.resource, self.negotiated, false);
                table["metadata"]["resourceVersion"] = json!(revision.to_string());
                let shown = match self.include {
                    IncludeObject::Object => object,
                    _ => json!({
                        "kind": "PartialObjectMetadata",
                        "apiVersion": self.negotiated.view_version(),
                        "metadata": metadata,
                    }),
                };
                table["rows"] = json!([{ "cells": [], "object": shown }]);
                table
            }
            View::PartialObject | View::PartialObjectList => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": self.negotiated.view_version(),
                "metadata": metadata,
            }),
            View::Whole => object,
        };
        self.frame(out, "BOOKMARK", &document.to_string().into())
    }
}

fn protobuf_frame(kind: &str, object: &[u8]) -> Result<Bytes, Status> {
    let body = protobuf::from_json(object).map_err(Status::internal)?;
    Ok(protobuf::watch_event(kind, &body).into())
}

const JSON_TAIL: &[u8] = b"}\n";

fn json_head(kind: &str) -> Vec<u8> {
    [b"{\"type\":\"", kind.as_bytes(), b"\",\"object\":"].concat()
}

fn json_frame(kind: &str, object: &[u8]) -> Bytes {
    [&json_head(kind), object, JSON_TAIL].concat().into()
}

/// An event that ends a watch with a reason.
pub(super) fn error_event(status: &Status, media: Media) -> Bytes {
    let json = status.to_json();
    if media == Media::Protobuf
        && let Ok(frame) = protobuf_frame("ERROR", &json)
    {
        return frame;
    }
    json_frame("ERROR", &json)
}
