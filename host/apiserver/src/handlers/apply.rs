//! PATCH with `application/apply-patch+yaml`: server-side apply.
//! Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/>

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use pilothouse_api::{Status, apply::Value, strict};
use pilothouse_client::Body;
use serde_json::{Map, json};

use super::{Request, scale, write};
use crate::{
    body::RequestBody,
    filters::authorization,
    negotiation::Negotiated,
    query::{self, FieldValidation, WriteOptions},
    registry::{self, Create, Current, Resource, Subresource, erased::AnyObject},
    state::State,
};

/// Applies the body to the object that the URL names, and creates it if there is none.
pub(crate) async fn apply(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    subresource: Subresource,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(request.query, "PatchOptions")?;
    let force = query::force_of_apply(request.query)?;
    let mut call = request.call(state, options.dry_run);
    call.applies = true;
    call.options = write::options_json("PatchOptions", options.dry_run);
    let sent = Configuration::read(&body.read().await?)?;
    let json = match subresource {
        Subresource::Scale => sent.of_scale(resource)?,
        _ => sent.json.clone(),
    };
    let config = Value::parse(&json).map_err(Status::internal)?;
    let (namespace, name) = request.key(resource);
    let make = |current: Option<&Current>| {
        let configuration = (&config, force);
        let registry = &state.registry;
        let object = registry::apply_to(
            registry,
            resource,
            &call,
            subresource,
            current,
            configuration,
        )?;
        sent.check(options.field_validation, &call)?;
        settle(object, resource, namespace, name)
    };
    let transform = |current: &Current| make(Some(current));
    let create = || {
        authorization::may_create(&request.user, request.info)?;
        make(None)
    };
    let creates = subresource == Subresource::Main;
    let outcome = state
        .registry
        .update(
            resource,
            &call,
            (namespace, name),
            subresource,
            &transform,
            creates.then_some(&create as &Create<'_>),
        )
        .await;
    if let (Subresource::Scale, Ok(updated)) = (subresource, &outcome) {
        return scale::answer(resource, &updated.object, negotiated, request);
    }
    let outcome = outcome.map(|updated| (if updated.created { 201 } else { 200 }, updated.object));
    write::answer(resource, request, negotiated, &call, outcome)
}

/// 400 unless the object is the one that the URL names.
fn settle(
    mut object: AnyObject,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<AnyObject, Status> {
    registry::settle_namespace(&mut object, resource.info.namespaced, namespace)?;
    if object.name().is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    registry::settle_name(&mut object, name)?;
    Ok(object)
}

/// What is applied.
#[derive(Debug)]
struct Configuration {
    json: Bytes,
    /// Why strict validation refuses it: keys that it gives more than once.
    duplicates: Option<String>,
}

impl Configuration {
    /// Reads YAML, of which JSON is a part. Anything but an object is 400.
    fn read(body: &Bytes) -> Result<Self, Status> {
        let is_json = serde_json::from_slice::<Map<String, serde_json::Value>>(body).is_ok();
        if is_json && strict::check(body, None).strict.is_empty() {
            return Ok(Self {
                json: body.clone(),
                duplicates: None,
            });
        }
        let broken = |why: String| Status::bad_request(format!("error decoding patch: {why}"));
        let text = std::str::from_utf8(body).map_err(|error| broken(error.to_string()))?;
        let (object, duplicates) = match serde_saphyr::from_str(text) {
            Ok(object) => (object, None),
            Err(error) => {
                let Some(duplicate) = duplicate(&error) else {
                    return Err(broken(format!(
                        "error converting YAML to JSON: yaml: {error}"
                    )));
                };
                let lenient = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
                let object =
                    serde_saphyr::from_str_with_options(text, lenient).map_err(|error| {
                        broken(format!("error converting YAML to JSON: yaml: {error}"))
                    })?;
                (object, Some(duplicate))
            }
        };
        let serde_json::Value::Object(object) = object else {
            return Err(broken(
                "json: cannot unmarshal into Go value of type map[string]interface {}".to_owned(),
            ));
        };
        let json = serde_json::to_vec(&object).map_err(Status::internal)?;
        Ok(Self {
            json: json.into(),
            duplicates,
        })
    }

    /// Duplicate keys are ignored, warned of, or refused with 400.
    fn check(&self, wanted: FieldValidation, call: &registry::Call) -> Result<(), Status> {
        match (&self.duplicates, wanted) {
            (Some(why), FieldValidation::Strict) => Err(Status::bad_request(format!(
                "error strict decoding patch: {why}"
            ))),
            (Some(why), FieldValidation::Warn) => {
                call.warnings.lock().push(why.clone());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A Scale as a configuration of the object that is scaled.
    fn of_scale(&self, resource: &Resource) -> Result<Bytes, Status> {
        let scale: serde_json::Value =
            serde_json::from_slice(&self.json).map_err(Status::internal)?;
        let (api_version, kind) = (&scale["apiVersion"], &scale["kind"]);
        if *api_version != "autoscaling/v1" || *kind != "Scale" {
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            return Err(Status::bad_request(format!(
                "invalid object type: {}, Kind={}",
                text(api_version),
                text(kind)
            )));
        }
        let gvk = resource.info.gvk();
        let mut config = json!({
            "apiVersion": gvk.api_version(),
            "kind": gvk.kind,
            "metadata": scale["metadata"],
        });
        if let Some(replicas) = scale["spec"].get("replicas") {
            config["spec"] = json!({ "replicas": replicas });
        }
        Ok(config.to_string().into())
    }
}

/// What an error of YAML says of a key that comes twice.
fn duplicate(error: &serde_saphyr::Error) -> Option<String> {
    match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key, location } => Some(format!(
            "error converting YAML to JSON: yaml: unmarshal errors:\n  line {}: key {:?} already set in map",
            location.line(),
            key.as_deref().unwrap_or_default(),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_yaml_or_json() {
        // body, JSON or what the error says, duplicates
        let cases = [
            ("a: 1\nb: [x]", Ok(r#"{"a":1,"b":["x"]}"#), None),
            (r#"{"b": 1}"#, Ok(r#"{"b": 1}"#), None),
            (
                "a: 1\na: 2",
                Ok(r#"{"a":2}"#),
                Some(
                    "error converting YAML to JSON: yaml: unmarshal errors:\n  line 2: key \"a\" already set in map",
                ),
            ),
            (
                r#"{"m": {"a": 1, "a": 2}}"#,
                Ok(r#"{"m":{"a":2}}"#),
                Some(
                    "error converting YAML to JSON: yaml: unmarshal errors:\n  line 1: key \"a\" already set in map",
                ),
            ),
            ("[1]", Err("cannot unmarshal"), None),
            (
                "a: [",
                Err("error decoding patch: error converting YAML to JSON: yaml:"),
                None,
            ),
            ("", Err("error decoding patch"), None),
        ];
        for (body, expected, duplicates) in cases {
            match (
                Configuration::read(&Bytes::from_static(body.as_bytes())),
                expected,
            ) {
                (Ok(read), Ok(json)) => {
                    assert_eq!(String::from_utf8_lossy(&read.json), json, "{body}");
                    assert_eq!(read.duplicates.as_deref(), duplicates, "{body}");
                }
                (Err(status), Err(text)) => {
                    assert_eq!(status.code, 400);
                    assert!(status.message.contains(text), "{}", status.message);
                }
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        }
    }
}
