//! Questions about users: who is it, may they. Answered by the authenticator and the authorizer that every request meets.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access>

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use http::Response;
use pilothouse_api::{
    Cause, GroupVersionKind, Status,
    field::{ErrorList, FieldError, Path},
};
use pilothouse_client::{Body, UserInfo};
use serde_json::{Map, Value, json};

use super::{
    NoRoute, Request,
    write::{check_fields, with_warnings},
};
use crate::{
    body::{RequestBody, expect_type, to_json},
    filters::{
        authentication::{Authenticator, Identity},
        authorization::{self, Attributes, Rule},
    },
    negotiation::Negotiated,
    query::WriteOptions,
    request_info::RequestInfo,
    response,
    reviews::{self, Review},
    state::State,
};

/// The question that a path asks, unless it is about something else.
pub(super) fn find(info: &RequestInfo) -> Option<Result<&'static Review, NoRoute>> {
    let review = reviews::of(&info.group, &info.version)
        .find(|review| review.resource == info.resource && review.resource != "bindings")?;
    Some(match (info.verb, info.named) {
        _ if review.namespaced == info.namespace.is_empty() => Err(NoRoute::Path),
        (_, true) => Err(NoRoute::Path),
        ("create", false) => Ok(review),
        _ => Err(NoRoute::Method),
    })
}

/// POST: the question comes back with its answer as `status`.
pub(super) async fn create(
    state: &Arc<State>,
    review: &'static Review,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(request.query, "CreateOptions")?;
    let call = request.call(state, options.dry_run);
    let gvk = GroupVersionKind::of(review.group, review.version, review.kind);
    let json = to_json(request.headers(), body.read().await?)?;
    expect_type(&json, &gvk.api_version(), &gvk.kind)?;
    check_fields(&gvk, &json, options.field_validation, &call)?;
    let question = serde_json::from_slice(&json).map_err(|error| error.to_string());
    let mut question = question.and_then(well_formed).map_err(|why| {
        Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {why}",
            gvk.kind, gvk.version, gvk.kind
        ))
    })?;
    question["apiVersion"] = gvk.api_version().into();
    question["kind"] = review.kind.into();
    let refuse = |errors: ErrorList| match errors.is_empty() {
        true => Ok(()),
        false => {
            let causes = errors.into_iter().map(Cause::from).collect();
            Err(Status::invalid(review.group, review.kind, "", causes))
        }
    };
    let user = &request.user;
    let status = match review.kind {
        "TokenReview" => {
            refuse(metadata_errors(&question, false))?;
            review_token(&state.authenticator, &question["spec"]).await?
        }
        "SelfSubjectReview" => {
            refuse(metadata_errors(&question, false))?;
            question["metadata"]["creationTimestamp"] = json!(call.context.now.to_string());
            json!({ "userInfo": shown(user) })
        }
        "SelfSubjectRulesReview" => {
            refuse(metadata_errors(&question, false))?;
            if text(&question["spec"]["namespace"]).is_empty() {
                return Err(Status::bad_request("no namespace on request"));
            }
            rules_of(user)
        }
        "SelfSubjectAccessReview" => {
            refuse(access_errors(&question, Asker::Self_, ""))?;
            json!({ "allowed": authorization::allows(user, attributes(&question["spec"])) })
        }
        kind => {
            let local = kind == "LocalSubjectAccessReview";
            let namespace = if local {
                request.info.namespace.as_str()
            } else {
                ""
            };
            settle_namespace(&mut question, namespace)?;
            let asker = if local { Asker::Local } else { Asker::Other };
            refuse(access_errors(&question, asker, namespace))?;
            let spec = &question["spec"];
            json!({ "allowed": authorization::allows(&subject(spec), attributes(spec)) })
        }
    };
    question["status"] = status;
    let document = response::document(
        201,
        question.to_string().into(),
        negotiated,
        request.headers(),
    );
    Ok(with_warnings(document, &call))
}

/// A question and its parts are objects; what is in them is judged later.
fn well_formed(question: Value) -> Result<Value, String> {
    if !question.is_object() {
        return Err(format!(
            "json: cannot unmarshal {} into an object",
            type_of(&question)
        ));
    }
    for part in ["metadata", "spec"] {
        let value = &question[part];
        if !value.is_null() && !value.is_object() {
            let found = type_of(value);
            return Err(format!("json: cannot unmarshal {found} into field .{part}"));
        }
    }
    Ok(question)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whose permissions are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Self_,
    Other,
    /// Somebody else's in one namespace.
    Local,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| text(item).to_owned()).collect()
}

/// The user of a SubjectAccessReview, with no group but those it names.
fn subject(spec: &Value) -> UserInfo {
    let extra = spec["extra"].as_object().into_iter().flatten();
    UserInfo {
        name: text(&spec["user"]).to_owned(),
        uid: text(&spec["uid"]).to_owned(),
        groups: texts(&spec["groups"]),
        extra: extra
            .map(|(key, values)| (key.clone(), texts(values)))
            .collect(),
    }
}

/// What a review asks for.
fn attributes(spec: &Value) -> Attributes<'_> {
    let path = &spec["nonResourceAttributes"];
    if path.is_object() {
        return Attributes {
            path: text(&path["path"]),
            verb: text(&path["verb"]),
            ..Attributes::default()
        };
    }
    let wanted = &spec["resourceAttributes"];
    Attributes {
        is_resource: true,
        path: "",
        verb: text(&wanted["verb"]),
        group: text(&wanted["group"]),
        namespace: text(&wanted["namespace"]),
        resource: text(&wanted["resource"]),
        subresource: text(&wanted["subresource"]),
        name: text(&wanted["name"]),
    }
}

fn settle_namespace(question: &mut Value, namespace: &str) -> Result<(), Status> {
    if namespace.is_empty() {
        return Ok(());
    }
    let sent = text(&question["metadata"]["namespace"]);
    if !sent.is_empty() && sent != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    question["metadata"]["namespace"] = namespace.into();
    Ok(())
}

/// A question has no name and no labels; one of a namespace has that.
fn metadata_errors(question: &Value, local: bool) -> ErrorList {
    let empty = Map::new();
    let metadata = question["metadata"].as_object().unwrap_or(&empty);
    let only_what_may_be = metadata.iter().all(|(key, value)| {
        value.is_null() || key == "managedFields" || (local && key == "namespace")
    });
    match only_what_may_be {
        true => ErrorList::new(),
        false => {
            let why = match local {
                true => "must be empty except for namespace",
                false => "must be empty",
            };
            vec![FieldError::invalid(
                &Path::new("metadata"),
                question["metadata"].clone(),
                why,
            )]
        }
    }
}

fn access_errors(question: &Value, asker: Asker, namespace: &str) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = &question["spec"];
    let path = Path::new("spec");
    let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let (resource_path, other_path) = (
        path.child("resourceAttributes"),
        path.child("nonResourceAttributes"),
    );
    match (resource.is_object(), other.is_object()) {
        (true, true) => errors.push(FieldError::invalid(
            &other_path,
            other.clone(),
            "cannot be specified in combination with resourceAttributes",
        )),
        (false, false) => errors.push(FieldError::invalid(
            &resource_path,
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    if asker != Asker::Self_ && text(&spec["user"]).is_empty() && texts(&spec["groups"]).is_empty()
    {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid(&path.child("user"), "", why));
    }
    errors.extend(metadata_errors(question, asker == Asker::Local));
    if asker == Asker::Local {
        let asked = text(&resource["namespace"]);
        if resource.is_object() && asked != namespace {
            let path = resource_path.child("namespace");
            errors.push(FieldError::invalid(
                &path,
                asked,
                "must match metadata.namespace",
            ));
        }
        if other.is_object() {
            let why = "disallowed on this kind of request";
            errors.push(FieldError::invalid(&other_path, other.clone(), why));
        }
    }
    errors
}

/// Whose token it is, and for which of the audiences that are asked about; or why it is nobody's.
async fn review_token(authenticator: &Authenticator, spec: &Value) -> Result<Value, Status> {
    let token = text(&spec["token"]);
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences = texts(&spec["audiences"]);
    Ok(match authenticator.identify(token, &audiences).await {
        Err(why) => json!({ "user": {}, "error": why }),
        Ok(Identity { user, audiences }) => {
            let mut status = json!({ "authenticated": true, "user": shown(&user) });
            if !audiences.is_empty() {
                status["audiences"] = json!(audiences);
            }
            status
        }
    })
}

/// A user as reviews show it: nothing that is empty.
fn shown(user: &UserInfo) -> Value {
    let UserInfo {
        name,
        uid,
        groups,
        extra,
    } = user;
    let fields: BTreeMap<&str, Value> = [
        ("username", json!(name), name.is_empty()),
        ("uid", json!(uid), uid.is_empty()),
        ("groups", json!(groups), groups.is_empty()),
        ("extra", json!(extra), extra.is_empty()),
    ]
    .into_iter()
    .filter(|(_, _, empty)| !empty)
    .map(|(name, value, _)| (name, value))
    .collect();
    json!(fields)
}

fn rules_of(user: &UserInfo) -> Value {
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in authorization::rules(user) {
        match rule {
            Rule::Resources {
                verbs,
                api_groups,
                resources: which,
            } => {
                resources
                    .push(json!({ "verbs": verbs, "apiGroups": api_groups, "resources": which }));
            }
            Rule::Paths {
                verbs,
                paths: which,
            } => {
                paths.push(json!({ "verbs": verbs, "nonResourceURLs": which }));
            }
        }
    }
    json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false })
}
