//! The views of an object: itself, its metadata, a row of a table.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables>

use bytes::Bytes;
use http::{HeaderMap, Response};
use pilothouse_api::Status;
use pilothouse_client::Body;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    negotiation::{Negotiated, View, not_acceptable},
    query::Query,
    registry::{Resource, erased::AnyObject},
    response,
};

/// How much of the object stands in a table's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    pub(crate) fn parse(query: &Query) -> Result<Self, Status> {
        match query.get("includeObject") {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Status::bad_request(format!(
                "unrecognized includeObject value: {other:?}"
            ))),
        }
    }
}

/// Answers with one object that has just been written or read.
pub(crate) fn object(
    code: u16,
    resource: &Resource,
    object: &AnyObject,
    negotiated: Negotiated,
    query: &Query,
    headers: &HeaderMap,
    now: jiff::Timestamp,
) -> Result<Response<Body>, Status> {
    let json = Bytes::from(object.encode());
    let body = match negotiated.view {
        View::Whole => json,
        View::Table => {
            let include = IncludeObject::parse(query)?;
            let version = object
                .metadata()
                .resource_version
                .clone()
                .unwrap_or_default();
            let row = row(resource, object, &json, negotiated, include, now)?;
            let mut table = table_head(resource, negotiated, true);
            table["metadata"] = json!({ "resourceVersion": version });
            table["rows"] = json!([row]);
            table.to_string().into()
        }
        View::PartialObject => partial(&json, negotiated)?,
        View::PartialObjectList => return Err(not_a_list()),
    };
    Ok(response::document(code, body, negotiated, headers))
}

/// 406: the list form of one object.
pub(crate) fn not_a_list() -> Status {
    not_acceptable(
        "you requested PartialObjectMetadataList, but the requested object is not a list",
    )
}

/// 406: the single form of a list.
pub(crate) fn is_a_list() -> Status {
    not_acceptable("you requested PartialObjectMetadata, but the requested object is a list")
}

/// A table without rows; its columns only if they are wanted.
pub(crate) fn table_head(resource: &Resource, negotiated: Negotiated, columns: bool) -> Value {
    let definitions: Vec<Value> = match columns {
        false => Vec::new(),
        true => resource
            .strategy
            .columns()
            .iter()
            .map(|column| {
                json!({
                    "name": column.name,
                    "type": column.column_type,
                    "format": column.format,
                    "description": column.description,
                    "priority": column.priority,
                })
            })
            .collect(),
    };
    json!({
        "kind": "Table",
        "apiVersion": negotiated.view_version(),
        "metadata": {},
        "columnDefinitions": definitions,
        "rows": [],
    })
}

/// One row.
pub(crate) fn row(
    resource: &Resource,
    object: &AnyObject,
    json: &[u8],
    negotiated: Negotiated,
    include: IncludeObject,
    now: jiff::Timestamp,
) -> Result<Value, Status> {
    let mut row = json!({ "cells": resource.strategy.row(object, now) });
    let shown = match include {
        IncludeObject::None => return Ok(row),
        IncludeObject::Metadata => partial(json, negotiated)?,
        IncludeObject::Object => Bytes::copy_from_slice(json),
    };
    row["object"] = serde_json::from_slice(&shown).map_err(Status::internal)?;
    Ok(row)
}

/// `PartialObjectMetadata` of an object's JSON.
pub(crate) fn partial(json: &[u8], negotiated: Negotiated) -> Result<Bytes, Status> {
    #[derive(Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let document: Document<'_> = serde_json::from_slice(json).map_err(Status::internal)?;
    let version = negotiated.view_version();
    let metadata = document.metadata.get();
    Ok(format!("{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{version}\",\"metadata\":{metadata}}}").into())
}
