//! The registry: one generic pipeline for all kinds, and per kind a [`strategy::Strategy`].
//!
//! Invariants:
//! 1. A write is one compare-and-swap on the object's key; what was judged is what is replaced.
//! 2. The typed value is decoded once per attempt; what is stored has no `resourceVersion`.
//! 3. Nothing that refuses a write leaves a trace: reservations are given back when dropped.

pub mod allocation;
pub mod erased;
pub mod kinds;
pub mod printing;
pub mod strategy;

mod binding;
mod claims;
mod converted;
mod create;
mod delete;
pub(crate) mod errors;
mod eviction;
mod foreign;
mod managed;
mod metadata;
mod read;
mod ttl;
mod update;

use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use pilothouse_api::{
    GroupVersionKind, GroupVersionResource, ResourceInfo, Revision, SharedObject, Status, apply,
    protobuf,
};
use pilothouse_plugin::record::RecordedCall;
use pilothouse_storage::{AtRest, KeyValue, Storage, StorageError, WatchCache};
use tokio::sync::mpsc;

pub(crate) use binding::bind;
pub(crate) use delete::success;
pub use delete::{DeleteOptions, Deleted, Preconditions, Propagation};
pub(crate) use eviction::evict;
pub(crate) use managed::apply_to;
pub(crate) use metadata::{settle_name, settle_namespace};
pub(crate) use read::{Page, Selection, revision_of};
pub(crate) use update::{Create, read_scale, scale_document};
pub use update::{Subresource, Updated};

use crate::{
    admission::{self, AdmissionChain, Operation, Phase},
    environment::{Environment, whole_seconds},
};
use erased::{AnyObject, ErasedStrategy};
use strategy::Context;

/// A served resource: its strategy and what it keeps in memory.
pub struct Resource {
    pub strategy: Arc<dyn ErasedStrategy>,
    pub info: ResourceInfo,
    /// Shared with the other resources that are kept under the same keys.
    pub cache: Arc<WatchCache>,
    /// `None`: the kind has no protobuf form.
    pub(crate) protobuf: Option<protobuf::Encoder>,
    converted: converted::Converted,
    owned: managed::Owned,
    /// Only what ships with the server may refuse writes: leases, events, plugins.
    pub exempt_from_user_plugins: bool,
}

/// What 409 says when somebody else wrote first.
const OBJECT_MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// How long a health check waits for storage, as upstream's do.
const HEALTH_WAIT: Duration = Duration::from_secs(2);

/// Resources whose objects a user's admission plugin must not be able to block.
const EXEMPT_RESOURCES: [(&str, &str); 4] = [
    ("", "events"),
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
    ("plugins.pilothouse.dev", "plugins"),
];

impl Resource {
    fn new(strategy: Arc<dyn ErasedStrategy>, cache: Arc<WatchCache>) -> Self {
        let info = strategy.resource().clone();
        Self {
            exempt_from_user_plugins: EXEMPT_RESOURCES
                .iter()
                .any(|(group, name)| info.gvr.group == *group && info.gvr.resource == *name),
            protobuf: protobuf::Encoder::new(&info.gvr.api_version(), &info.kind),
            owned: managed::Owned::new(&info),
            info,
            strategy,
            cache,
            converted: converted::Converted::default(),
        }
    }

    /// Whether these are pods, which have subresources of their own.
    pub fn is_pods(&self) -> bool {
        self.info.gvr.group.is_empty() && self.info.gvr.resource == "pods"
    }

    /// Whether these are service accounts, for which tokens are issued.
    pub fn is_service_accounts(&self) -> bool {
        self.info.gvr.group.is_empty() && self.info.gvr.resource == "serviceaccounts"
    }

    /// What may be done with the resource itself.
    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        let deletes_collections = self.strategy.allow_delete_collection();
        let all = [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ];
        all.into_iter()
            .filter(|verb| deletes_collections || *verb != "deletecollection")
            .collect()
    }

    /// The stored form of an object: no `resourceVersion`.
    fn encode(&self, object: &mut AnyObject) -> Result<Bytes, Status> {
        drop_empty(object.metadata_mut());
        let version = object.metadata_mut().resource_version.take();
        let mut stored = object.encode_plain();
        object.metadata_mut().resource_version = version;
        if let Some(conversion) = self.strategy.conversion() {
            stored = (conversion.to_stored)(&stored)?;
        }
        Ok(match object.managed() {
            None => stored.into(),
            Some(managed) => apply::join(stored, managed).into(),
        })
    }

    /// The typed form of what is stored, and its JSON as served, without managed fields.
    fn decode_stored(
        &self,
        stored: &Bytes,
        revision: Revision,
    ) -> Result<(AnyObject, Bytes), Status> {
        let json = protobuf::stored_as_json(stored).map_err(Status::internal)?;
        let stored = &match json {
            Cow::Borrowed(_) => stored.clone(),
            Cow::Owned(json) => json.into(),
        };
        let (plain, managed) = apply::split(stored);
        let plain = match (self.strategy.conversion(), plain) {
            (Some(conversion), plain) => (conversion.from_stored)(&plain)?.into(),
            (None, Cow::Owned(plain)) => plain.into(),
            (None, Cow::Borrowed(_)) => stored.clone(),
        };
        let mut object = self.strategy.decode(&plain).map_err(|status| {
            Status::internal(format!(
                "a stored object cannot be read: {}",
                status.message
            ))
        })?;
        object.metadata_mut().resource_version = Some(revision.to_string());
        object.set_managed(managed.map(Arc::from));
        Ok((object, plain))
    }
}

/// Leaves out lists and maps without entries, as Kubernetes' own encoding does.
fn drop_empty(metadata: &mut ObjectMeta) {
    metadata
        .owner_references
        .take_if(|owners| owners.is_empty());
    metadata
        .finalizers
        .take_if(|finalizers| finalizers.is_empty());
    metadata.labels.take_if(|labels| labels.is_empty());
    metadata
        .annotations
        .take_if(|annotations| annotations.is_empty());
}

/// An object as it is stored now.
pub struct Current {
    /// With its `resourceVersion`.
    pub object: AnyObject,
    pub revision: Revision,
    stored: Bytes,
    /// It has to be written again even if nothing changes: another key encrypts it now.
    stale: bool,
    /// JSON as served, without managed fields and `resourceVersion`.
    plain: Bytes,
}

/// One request as the registry sees it.
pub struct Call {
    pub context: Context,
    /// The request's id, which admission plugins are shown.
    pub uid: String,
    /// Who comes to own what the request writes.
    pub field_manager: String,
    /// The request is an apply: who owns what has been settled with what is written.
    pub applies: bool,
    /// The options as JSON, for admission.
    pub options: Bytes,
    /// When the request's time is up.
    pub deadline: Option<tokio::time::Instant>,
    pub warnings: Mutex<Vec<String>>,
}

impl Call {
    /// A call by `user`.
    pub fn new(
        user: pilothouse_client::UserInfo,
        environment: &dyn Environment,
        dry_run: bool,
    ) -> Self {
        Self {
            context: Context {
                user,
                now: whole_seconds(environment.now()),
                dry_run,
            },
            uid: environment.uuid(),
            field_manager: String::new(),
            applies: false,
            options: Bytes::new(),
            deadline: None,
            warnings: Mutex::default(),
        }
    }

    pub(crate) fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.lock().extend(warnings);
    }
}

/// What admission looks at besides the objects.
struct Attributes<'a> {
    subresource: &'static str,
    operation: Operation,
    /// Of the object shown; the scale subresource shows a Scale.
    kind: Option<GroupVersionKind>,
    namespace: &'a str,
    name: &'a str,
}

type ByResource = HashMap<Cow<'static, str>, Arc<Resource>>;
type ByVersion = HashMap<Cow<'static, str>, ByResource>;

/// All resources over one storage.
pub struct Registry {
    pub(crate) storage: Arc<dyn Storage>,
    admission: Arc<dyn AdmissionChain>,
    pub(crate) environment: Arc<dyn Environment>,
    leases: ttl::Leases,
    all: Vec<Arc<Resource>>,
    by_group: HashMap<Cow<'static, str>, ByVersion>,
}

impl Registry {
    /// A registry of these kinds. Their caches begin to fill on the current tokio runtime.
    pub fn new(
        storage: Arc<dyn Storage>,
        admission: Arc<dyn AdmissionChain>,
        environment: Arc<dyn Environment>,
        kinds: Vec<Arc<dyn ErasedStrategy>>,
    ) -> Self {
        let caches = start_caches(&storage, &kinds);
        let with_cache = |strategy: Arc<dyn ErasedStrategy>| {
            let cache = caches.get(&strategy.resource().storage_prefix)?.clone();
            Some(Arc::new(Resource::new(strategy, cache)))
        };
        let all: Vec<Arc<Resource>> = kinds.into_iter().filter_map(with_cache).collect();
        let mut by_group: HashMap<Cow<'static, str>, ByVersion> = HashMap::new();
        for resource in &all {
            let GroupVersionResource {
                group,
                version,
                resource: name,
            } = &resource.info.gvr;
            let versions = by_group.entry(group.clone()).or_default();
            let resources = versions.entry(version.clone()).or_default();
            resources.insert(name.clone(), resource.clone());
        }
        Self {
            storage,
            admission,
            environment,
            leases: ttl::Leases::default(),
            all,
            by_group,
        }
    }

    /// Every resource, in the order of the table of kinds.
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.all
    }

    /// The resource of a path.
    pub fn resource(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.by_group.get(group)?.get(version)?.get(resource)
    }

    /// The calls of a plugin component from now on; `None` if it is not active here.
    pub(crate) fn record_calls(&self, component: &str) -> Option<mpsc::Receiver<RecordedCall>> {
        self.admission.record_calls(component)
    }

    /// Whether storage can serve, with the reason if it cannot.
    pub async fn health(&self) -> Result<(), String> {
        let writable = self.writable().await;
        writable.map_err(|error| error.to_string())
    }

    /// Whether storage takes writes.
    pub(crate) async fn writable(&self) -> Result<(), StorageError> {
        match tokio::time::timeout(HEALTH_WAIT, self.storage.health()).await {
            Ok(health) => health,
            Err(_) => Err(StorageError::Unavailable(format!(
                "no answer in {HEALTH_WAIT:?}"
            ))),
        }
    }

    /// Whether storage lives; a full or damaged disk is not healed by a restart, and reads go on.
    pub(crate) async fn alive(&self) -> Result<(), String> {
        match self.writable().await {
            Ok(()) | Err(StorageError::NoSpace(_) | StorageError::ReadOnly(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Whether every cache can answer, with the names of those that cannot.
    pub(crate) fn filled(&self) -> Result<(), String> {
        let filling = self
            .all
            .iter()
            .filter(|resource| !resource.cache.is_ready());
        let names: Vec<String> = filling
            .map(|resource| resource.info.group_resource().to_string())
            .collect();
        match names.is_empty() {
            true => Ok(()),
            false => Err(format!("caches are filling: {}", names.join(", "))),
        }
    }

    /// Waits until every cache can answer.
    pub async fn ready(&self, timeout: Duration) -> Result<(), Status> {
        for resource in &self.all {
            resource
                .cache
                .ready(timeout)
                .await
                .map_err(errors::from_cache)?;
        }
        Ok(())
    }

    /// The object as it is stored now, linearizable.
    pub async fn current(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Current>, Status> {
        let key = resource.info.storage_key(namespace, name);
        let found = self
            .storage
            .get(&key, None)
            .await
            .map_err(errors::from_storage)?;
        found.kv.map(|kv| read_current(resource, kv)).transpose()
    }

    /// Runs mutating admission, and defaulting again if it changed anything.
    async fn mutate(
        &self,
        resource: &Resource,
        call: &Call,
        attributes: &Attributes<'_>,
        object: &mut AnyObject,
        old: Option<&AnyObject>,
    ) -> Result<(), Status> {
        let mut request = admission_request(resource, call, attributes);
        if !self.admission.wants(Phase::Mutate, &request) {
            return Ok(());
        }
        request.namespace_object = self.namespace_of(resource, attributes).await;
        request.object = Some(attributes.show(resource, object));
        request.old_object = old.map(|old| attributes.show(resource, old));
        let mut mutation = self.admission.mutate(request.clone(), None).await?;
        if take_over(resource, attributes, object, &mutation).is_err() {
            // once more, with each plugin held to what it makes: who made what cannot be read fails as its policy says
            let readable = |json: &[u8]| match attributes.subresource {
                "scale" => update::scale_replicas(json).map(drop),
                _ => resource.strategy.decode(json).map(drop),
            };
            mutation = self.admission.mutate(request, Some(&readable)).await?;
            take_over(resource, attributes, object, &mutation)?;
        }
        call.warn(mutation.warnings);
        Ok(())
    }

    /// The namespace of a request, as the cache has it, or as storage has it while the cache has not seen it yet.
    async fn namespace_of(
        &self,
        resource: &Resource,
        attributes: &Attributes<'_>,
    ) -> Option<SharedObject> {
        if !resource.info.namespaced {
            return None;
        }
        let namespaces = &self.resource("", "v1", "namespaces")?.cache;
        match namespaces.get("", attributes.namespace) {
            Ok(Some(namespace)) => Some(namespace),
            _ => namespaces.get_fresh("", attributes.namespace).await.ok()?.0,
        }
    }

    /// Runs validating admission.
    async fn validate(
        &self,
        resource: &Resource,
        call: &Call,
        attributes: &Attributes<'_>,
        object: Option<&AnyObject>,
        old: Option<&AnyObject>,
    ) -> Result<(), Status> {
        let mut request = admission_request(resource, call, attributes);
        if !self.admission.wants(Phase::Validate, &request) {
            return Ok(());
        }
        request.namespace_object = self.namespace_of(resource, attributes).await;
        request.object = object.map(|object| attributes.show(resource, object));
        request.old_object = old.map(|old| attributes.show(resource, old));
        call.warn(self.admission.validate(&request).await?);
        Ok(())
    }
}

impl Attributes<'_> {
    /// An object as admission is shown it: without managed fields, which are the server's.
    fn show(&self, resource: &Resource, object: &AnyObject) -> Bytes {
        match self.subresource {
            "scale" => scale_document(resource, object),
            _ => object.encode_plain().into(),
        }
    }
}

/// Makes of the object what mutating admission made of it; an error leaves it as it is.
fn take_over(
    resource: &Resource,
    attributes: &Attributes<'_>,
    object: &mut AnyObject,
    mutation: &admission::Mutation,
) -> Result<(), Status> {
    let Some(json) = &mutation.object else {
        return Ok(());
    };
    if attributes.subresource == "scale" {
        let replicas = update::scale_replicas(json)?;
        resource.strategy.set_replicas(object, replicas);
        return Ok(());
    }
    let mut changed = resource.strategy.decode(json)?;
    changed.set_managed(object.managed().cloned());
    resource.strategy.default(&mut changed);
    *object = changed;
    Ok(())
}

/// A request without its objects.
fn admission_request(
    resource: &Resource,
    call: &Call,
    attributes: &Attributes<'_>,
) -> admission::Request {
    let user = &call.context.user;
    admission::Request {
        uid: call.uid.clone(),
        kind: attributes
            .kind
            .clone()
            .unwrap_or_else(|| resource.info.gvk()),
        resource: resource.info.gvr.clone(),
        subresource: attributes.subresource.to_owned(),
        name: attributes.name.to_owned(),
        namespace: attributes.namespace.to_owned(),
        namespaced: resource.info.namespaced,
        operation: attributes.operation,
        user: admission::User {
            name: user.name.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone().into_iter().collect(),
        },
        dry_run: call.context.dry_run,
        object: None,
        old_object: None,
        options: call.options.clone(),
        built_in_only: resource.exempt_from_user_plugins,
        namespace_object: None,
        deadline: call.deadline,
    }
}

/// One cache for each place in storage, of the form that is kept there.
fn start_caches(
    storage: &Arc<dyn Storage>,
    kinds: &[Arc<dyn ErasedStrategy>],
) -> HashMap<Cow<'static, str>, Arc<WatchCache>> {
    let kept = kinds.iter().filter(|kind| kind.conversion().is_none());
    kept.map(|kind| {
        let info = kind.resource().clone();
        let cache = WatchCache::start(storage.clone(), info.clone());
        (info.storage_prefix, Arc::new(cache))
    })
    .collect()
}

/// What a key holds, typed.
fn read_current(resource: &Resource, kv: KeyValue) -> Result<Current, Status> {
    let stored = kv.readable().map_err(errors::from_storage)?;
    let (object, plain) = resource.decode_stored(stored, kv.mod_revision)?;
    Ok(Current {
        object,
        plain,
        revision: kv.mod_revision,
        stale: kv.at_rest == AtRest::Stale,
        stored: kv.value,
    })
}
