//! From an authorized request to its answer: routing, then one handler per verb.

mod apply;
pub(crate) mod component_status;
pub(crate) mod connect;
mod health;
mod patch;
mod paths;
mod read;
mod recorded_calls;
mod review;
mod scale;
mod snapshot;
mod token;
mod view;
mod watch;
pub(crate) mod websocket;
mod write;

use std::sync::Arc;

use http::{HeaderMap, Response, request::Parts};
use pilothouse_api::Status;
use pilothouse_client::{Body, UserInfo};

use crate::{
    body::RequestBody,
    metrics::Labels,
    negotiation::{Negotiated, Offer, negotiate},
    query::{self, Query},
    registry::{Call, Resource, Subresource},
    request_info::RequestInfo,
    response::{path_not_found, status_response},
    state::State,
};

use connect::Connect;

/// An authorized request. Its body is read only by those handlers that need one.
pub(crate) struct Request<'a> {
    pub(crate) info: &'a RequestInfo,
    pub(crate) query: &'a Query,
    pub(crate) parts: &'a Parts,
    pub(crate) user: UserInfo,
    pub(crate) audit_id: &'a str,
    /// What it is counted under.
    pub(crate) labels: &'a Labels,
    /// When its time is up; `None` for what stays open.
    pub(crate) deadline: Option<tokio::time::Instant>,
}

impl Request<'_> {
    fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The registry's view of the request.
    fn call(&self, state: &State, dry_run: bool) -> Call {
        let mut call = Call::new(self.user.clone(), &*state.environment, dry_run);
        call.uid = self.audit_id.to_owned();
        call.field_manager = query::field_manager(self.query, self.headers());
        call.deadline = self.deadline;
        call
    }

    /// Namespace and name of the object.
    fn key(&self, resource: &Resource) -> (&str, &str) {
        match resource.info.namespaced {
            true => (&self.info.namespace, &self.info.name),
            false => ("", &self.info.name),
        }
    }
}

/// Which handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Get(Subresource),
    List,
    Watch,
    Create,
    Update(Subresource),
    Patch(Subresource),
    Delete,
    DeleteCollection,
    Bind,
    Evict,
    Token,
    Connect(Connect),
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoRoute {
    /// There is no such path.
    Path,
    /// The path does not know the method.
    Method,
}

/// Answers a request.
pub(crate) async fn handle(
    state: &Arc<State>,
    request: Request<'_>,
    body: RequestBody,
) -> Response<Body> {
    let info = request.info;
    if !info.is_resource {
        return paths::handle(state, &request).await;
    }
    if component_status::is_about(info) {
        return component_status::handle(state, &request).await;
    }
    if let Some(found) = review::find(info) {
        let review = match found {
            Err(NoRoute::Path) => return path_not_found(),
            found => found.map_err(|_| no_method()),
        };
        let offer = Offer {
            views: false,
            protobuf: true,
        };
        let negotiated = match negotiate(request.headers(), request.query, offer) {
            Ok(negotiated) => negotiated,
            Err(status) => {
                return status_response(&status, Negotiated::default(), request.headers());
            }
        };
        let outcome = async { review::create(state, review?, &request, body, negotiated).await };
        return outcome
            .await
            .unwrap_or_else(|status| status_response(&status, negotiated, request.headers()));
    }
    let found = match find(state, info) {
        Err(NoRoute::Path) => return path_not_found(),
        found => found,
    };
    let offer = Offer {
        views: true,
        protobuf: found.as_ref().map_or(true, |(of, _)| of.protobuf.is_some()),
    };
    let negotiated = match negotiate(request.headers(), request.query, offer) {
        Ok(negotiated) => negotiated,
        Err(status) => return status_response(&status, Negotiated::default(), request.headers()),
    };
    let outcome = match found {
        Ok((resource, route)) => {
            dispatch(state, &resource, route, &request, body, negotiated).await
        }
        Err(_) => Err(no_method()),
    };
    outcome.unwrap_or_else(|status| status_response(&status, negotiated, request.headers()))
}

fn no_method() -> Status {
    Status::method_not_allowed("the server does not allow this method on the requested resource")
}

/// The resource and handler of a path. `bindings` is an older way to write `pods/x/binding`, the name being in the body.
fn find(state: &State, info: &RequestInfo) -> Result<(Arc<Resource>, Route), NoRoute> {
    let registry = &state.registry;
    if (&*info.group, &*info.version, &*info.resource) == ("", "v1", "bindings") {
        let pods = registry.resource("", "v1", "pods").ok_or(NoRoute::Path)?;
        return match (info.verb, info.namespace.is_empty(), info.named) {
            ("create", false, false) => Ok((pods.clone(), Route::Bind)),
            (_, false, false) => Err(NoRoute::Method),
            _ => Err(NoRoute::Path),
        };
    }
    let resource = registry
        .resource(&info.group, &info.version, &info.resource)
        .ok_or(NoRoute::Path)?;
    Ok((resource.clone(), route(resource, info)?))
}

fn route(resource: &Resource, info: &RequestInfo) -> Result<Route, NoRoute> {
    let named = info.named;
    let in_namespace = !info.namespace.is_empty() && info.resource != "namespaces";
    if RequestInfo::is_too_deep(&info.path, info)
        || (in_namespace && !resource.info.namespaced)
        || (named && resource.info.namespaced && !in_namespace)
    {
        return Err(NoRoute::Path);
    }
    if !named {
        let everywhere = resource.info.namespaced && !in_namespace;
        return match info.verb {
            "list" => Ok(Route::List),
            "watch" => Ok(Route::Watch),
            "create" if !everywhere => Ok(Route::Create),
            "deletecollection" if !everywhere && resource.strategy.allow_delete_collection() => {
                Ok(Route::DeleteCollection)
            }
            _ => Err(NoRoute::Method),
        };
    }
    if let Some(connect) = Connect::find(resource, &info.subresource) {
        return match connect.allows(info.verb) {
            true => Ok(Route::Connect(connect)),
            false => Err(NoRoute::Method),
        };
    }
    let strategy = &*resource.strategy;
    let subresource = match info.subresource.as_str() {
        "" => Subresource::Main,
        "status" if strategy.has_status() => Subresource::Status,
        "scale" if strategy.has_scale() => Subresource::Scale,
        "finalize" if strategy.has_finalize() => Subresource::Finalize,
        "binding" if resource.is_pods() => Subresource::Binding,
        "eviction" if resource.is_pods() => {
            return match info.verb {
                "create" => Ok(Route::Evict),
                _ => Err(NoRoute::Method),
            };
        }
        "token" if resource.is_service_accounts() => {
            return match info.verb {
                "create" => Ok(Route::Token),
                _ => Err(NoRoute::Method),
            };
        }
        other => match strategy.part_names().iter().find(|name| **name == other) {
            Some(name) => Subresource::Part(name),
            None => return Err(NoRoute::Path),
        },
    };
    match (info.verb, subresource) {
        ("create", Subresource::Binding) => Ok(Route::Bind),
        (_, Subresource::Binding) => Err(NoRoute::Method),
        ("update", _) => Ok(Route::Update(subresource)),
        (_, Subresource::Finalize) => Err(NoRoute::Method),
        ("get", _) => Ok(Route::Get(subresource)),
        ("patch", _) => Ok(Route::Patch(subresource)),
        ("watch", Subresource::Main) => Ok(Route::Watch),
        ("delete", Subresource::Main) => Ok(Route::Delete),
        _ => Err(NoRoute::Method),
    }
}

async fn dispatch(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    route: Route,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    match route {
        Route::Get(Subresource::Scale) => scale::get(state, resource, request, negotiated).await,
        Route::Get(_) => read::get(state, resource, request, negotiated).await,
        Route::List => read::list(state, resource, request, negotiated).await,
        Route::Watch => watch::watch(state, resource, request, negotiated).await,
        Route::Create => write::create(state, resource, request, body, negotiated).await,
        Route::Update(Subresource::Scale) => {
            scale::update(state, resource, request, body, negotiated).await
        }
        Route::Update(subresource) => {
            write::update(state, resource, subresource, request, body, negotiated).await
        }
        Route::Patch(subresource) => {
            write::patch(state, resource, subresource, request, body, negotiated).await
        }
        Route::Delete => write::delete(state, resource, request, body, negotiated).await,
        Route::DeleteCollection => {
            write::delete_collection(state, resource, request, body, negotiated).await
        }
        Route::Bind => write::bind(state, resource, request, body, negotiated).await,
        Route::Connect(connect) => Err(connect::refusal(state, resource, request, connect).await),
        Route::Token => token::create(state, resource, request, body, negotiated).await,
        Route::Evict => write::evict(state, resource, request, body, negotiated).await,
    }
}
