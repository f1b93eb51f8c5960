//! `componentstatuses`: whether the parts of the control plane are well. They are found out when asked for and never stored.
//! Storage answers for itself; the scheduler and the controller manager are known by the Lease that their leader renews.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/component-status-v1/>

use std::sync::Arc;

use http::Response;
use k8s_openapi::api::coordination::v1::Lease;
use pilothouse_api::{GroupResource, Status};
use pilothouse_client::Body;
use serde_json::{Value, json};

use super::Request;
use crate::{
    negotiation::{Negotiated, Offer, View, negotiate, not_acceptable},
    registry::printing::Column,
    request_info::RequestInfo,
    response::{self, add_warnings, status_response},
    state::State,
};

pub(crate) const PLURAL: &str = "componentstatuses";
pub(crate) const KIND: &str = "ComponentStatus";
const DEPRECATED: &str = "v1 ComponentStatus is deprecated in v1.19+";
/// Component, and the Lease of its leader.
const LED: [(&str, &str); 2] = [
    ("controller-manager", "kube-controller-manager"),
    ("scheduler", "kube-scheduler"),
];

/// Whether a request is about them.
pub(crate) fn is_about(info: &RequestInfo) -> bool {
    info.is_resource && (&*info.group, &*info.version, &*info.resource) == ("", "v1", PLURAL)
}

/// What is known of a component: well, or why not.
type Health = Result<(), String>;

/// Answers a list or a get; everything else is 405.
pub(crate) async fn handle(state: &Arc<State>, request: &Request<'_>) -> Response<Body> {
    let offer = Offer {
        views: true,
        protobuf: false,
    };
    let headers = request.headers();
    let negotiated = match negotiate(headers, request.query, offer) {
        Ok(negotiated) => negotiated,
        Err(status) => return status_response(&status, Negotiated::default(), headers),
    };
    let outcome = answer(state, request, negotiated).await;
    outcome.unwrap_or_else(|status| status_response(&status, negotiated, headers))
}

async fn answer(
    state: &Arc<State>,
    request: &Request<'_>,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let components = components(state).await?;
    let name = request.info.name.as_str();
    let one = request.info.named;
    if !matches!(request.info.verb, "get" | "list") || !request.info.subresource.is_empty() {
        return Err(Status::method_not_allowed(
            "the server does not allow this method on the requested resource",
        ));
    }
    let chosen: Vec<&(&str, Health)> = components
        .iter()
        .filter(|(component, _)| !one || *component == name)
        .collect();
    if one && chosen.is_empty() {
        let resource = GroupResource {
            group: "".into(),
            resource: PLURAL.into(),
        };
        return Err(Status::not_found(&resource, name));
    }
    let document = match negotiated.view {
        View::Table => table(&chosen, negotiated),
        View::Whole if one => chosen.first().map_or(Value::Null, |c| object(c, true)),
        View::Whole => json!({
            "kind": "ComponentStatusList",
            "apiVersion": "v1",
            "metadata": {},
            "items": chosen.iter().map(|c| object(c, false)).collect::<Vec<_>>(),
        }),
        View::PartialObject | View::PartialObjectList => {
            return Err(not_acceptable("component statuses have no metadata"));
        }
    };
    let body = document.to_string().into();
    let mut response = response::document(200, body, negotiated, request.headers());
    add_warnings(response.headers_mut(), &[DEPRECATED.to_owned()]);
    Ok(response)
}

async fn components(state: &State) -> Result<Vec<(&'static str, Health)>, Status> {
    let mut found = vec![("etcd-0", state.registry.health().await)];
    for (component, lease) in LED {
        if let Some(health) = leader(state, lease).await? {
            found.push((component, health));
        }
    }
    found.sort_unstable_by_key(|(component, _)| *component);
    Ok(found)
}

/// Whether somebody leads; `None`: nobody ever did, so it runs without leaders or not at all.
async fn leader(state: &State, name: &str) -> Result<Option<Health>, Status> {
    let registry = &state.registry;
    let Some(leases) = registry.resource("coordination.k8s.io", "v1", "leases") else {
        return Ok(None);
    };
    let Some(current) = registry.current(leases, "kube-system", name).await? else {
        return Ok(None);
    };
    let spec = current.object.downcast_ref::<Lease>();
    let spec = spec
        .and_then(|lease| lease.spec.clone())
        .unwrap_or_default();
    let renewed = spec.renew_time.map_or(i64::MIN, |time| time.0.as_second());
    let until = renewed.saturating_add(spec.lease_duration_seconds.unwrap_or_default().into());
    Ok(Some(match until >= state.environment.now().as_second() {
        true => Ok(()),
        false => Err("its leader has not renewed its lease".to_owned()),
    }))
}

fn object((component, health): &(&str, Health), typed: bool) -> Value {
    let condition = match health {
        Ok(()) => json!({ "type": "Healthy", "status": "True", "message": "ok" }),
        Err(why) => json!({ "type": "Healthy", "status": "False", "error": why }),
    };
    let mut object = json!({ "metadata": { "name": component }, "conditions": [condition] });
    if typed {
        object["kind"] = json!(KIND);
        object["apiVersion"] = json!("v1");
    }
    object
}

fn table(chosen: &[&(&str, Health)], negotiated: Negotiated) -> Value {
    let columns = [
        Column::NAME,
        Column::string("Status", "Whether the component is well."),
        Column::string("Message", "What the component says."),
        Column::string("Error", "Why it is not well."),
    ];
    let definitions = columns.map(|column| {
        json!({
            "name": column.name,
            "type": column.column_type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        })
    });
    let rows = chosen.iter().map(|(component, health)| {
        let cells = match health {
            Ok(()) => json!([component, "Healthy", "ok", ""]),
            Err(why) => json!([component, "Unhealthy", "", why]),
        };
        let object = json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": negotiated.view_version(),
            "metadata": { "name": component },
        });
        json!({ "cells": cells, "object": object })
    });
    json!({
        "kind": "Table",
        "apiVersion": negotiated.view_version(),
        "metadata": {},
        "columnDefinitions": definitions,
        "rows": rows.collect::<Vec<_>>(),
    })
}
