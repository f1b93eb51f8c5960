//! `metadata.managedFields` of what is written: who owns what after a create, an update or an apply.
//! Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management>

use std::sync::Arc;

use pilothouse_api::{
    GroupVersionKind, ResourceInfo, Status,
    apply::{self, Apply, BuiltIn, Converted, Value, Versions, Writer},
    facts,
};

use super::{Call, Current, Registry, Resource, erased::AnyObject, update::Subresource};

/// What ownership goes by for one resource.
pub(super) struct Owned {
    schema: BuiltIn,
    /// An object in which nothing has been set.
    empty: Value<'static>,
    gvk: GroupVersionKind,
    api_version: String,
}

impl Owned {
    pub(super) fn new(info: &ResourceInfo) -> Self {
        let gvk = info.gvk();
        let of = facts::by_kind(&gvk); // kinds without facts are owned as they come
        Self {
            schema: of.map_or(BuiltIn::Anything, BuiltIn::kind),
            empty: of.map_or(Value::Map(Vec::new()), apply::empty_object),
            api_version: gvk.api_version(),
            gvk,
        }
    }
}

fn writer<'a>(resource: &'a Resource, call: &'a Call, subresource: &'a str) -> Writer<'a> {
    Writer {
        manager: &call.field_manager,
        api_version: &resource.owned.api_version,
        subresource,
        scope: resource.strategy.owned_scope(subresource),
        now: call.context.now,
    }
}

fn parse(json: &[u8]) -> Result<Value<'_>, Status> {
    Value::parse(json).map_err(Status::internal)
}

/// A creator owns what it sent. Runs after defaulting and before admission, as in Kubernetes.
pub(super) fn track_create(
    resource: &Resource,
    call: &Call,
    object: &mut AnyObject,
) -> Result<(), Status> {
    if call.applies {
        return Ok(());
    }
    let json = object.encode_plain();
    let owned = &resource.owned;
    let writer = writer(resource, call, "");
    let managed = apply::created(owned.schema, &writer, &owned.empty, &parse(&json)?);
    object.set_managed(managed.map(Arc::from));
    Ok(())
}

/// Who updates owns what the update changes. A binding is nobody's.
pub(super) fn track_update(
    registry: &Registry,
    resource: &Resource,
    call: &Call,
    subresource: Subresource,
    new: &mut AnyObject,
    current: &Current,
) -> Result<(), Status> {
    let stored = current.object.managed();
    if subresource == Subresource::Binding {
        new.set_managed(stored.cloned());
        return Ok(());
    }
    if call.applies || (stored.is_none() && new.managed().is_none()) {
        return Ok(());
    }
    let json = new.encode_plain();
    let (before, after) = (parse(&current.plain)?, parse(&json)?);
    let versions = Siblings { registry, resource };
    let managed = apply::updated(
        resource.owned.schema,
        &writer(resource, call, subresource.name()),
        (&before, stored.map(|stored| &**stored)),
        (&after, new.managed().map(|sent| &**sent)),
        &versions,
    )?;
    new.set_managed(match (managed, stored) {
        (Some(managed), Some(stored)) if *managed == **stored => Some(stored.clone()),
        (managed, _) => managed.map(Arc::from),
    });
    Ok(())
}

/// Takes back times of entries that are all an update would change: what changes nothing else is not written.
pub(super) fn only_times_differ(new: &AnyObject, old: &AnyObject) -> bool {
    match (new.managed(), old.managed()) {
        (Some(new), Some(old)) => {
            !Arc::ptr_eq(new, old) && new.len() == old.len() && apply::same_but_times(new, old)
        }
        _ => false,
    }
}

/// Applies a configuration to what is stored, or to nothing. What comes back is to be written as an update or a create.
/// Errors: 409 with a cause for each field that somebody else owns; 400 and 500 for a configuration of another type.
pub(crate) fn apply_to(
    registry: &Registry,
    resource: &Resource,
    call: &Call,
    subresource: Subresource,
    current: Option<&Current>,
    (config, force): (&Value<'_>, bool),
) -> Result<AnyObject, Status> {
    check_type(resource, config)?;
    let live = parse(current.map_or(b"{}", |current| &current.plain))?;
    let managed = current.and_then(|current| current.object.managed());
    let versions = Siblings { registry, resource };
    let apply = Apply {
        schema: resource.owned.schema,
        writer: writer(resource, call, subresource.name()),
        force,
        empty: &resource.owned.empty,
        live: &live,
        managed: managed.map(|managed| &**managed),
        config,
        versions: &versions,
    };
    let applied = apply.run()?;
    let decoded = resource.strategy.decode(&applied.object.to_json());
    let mut object = decoded.map_err(|error| {
        Status::new(
            500,
            "",
            format!("failed to convert the applied object: {}", error.message),
        )
    })?;
    object.set_managed(applied.managed.map(Arc::from));
    let metadata = object.metadata_mut();
    if let Some(current) = current
        && metadata.resource_version.is_none()
    {
        metadata.resource_version = Some(current.revision.to_string());
    }
    Ok(object)
}

/// 400 unless the configuration says that it is of the endpoint's kind and version.
fn check_type(resource: &Resource, config: &Value<'_>) -> Result<(), Status> {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version == resource.owned.api_version && *kind == *resource.owned.gvk.kind {
        return Ok(());
    }
    let slash = if api_version.contains('/') { "" } else { "/" };
    Err(Status::bad_request(format!(
        "invalid object type: {slash}{api_version}, Kind={kind}"
    )))
}

/// The versions of a kind: the resources that are kept in one place.
struct Siblings<'a> {
    registry: &'a Registry,
    resource: &'a Resource,
}

impl Siblings<'_> {
    fn find(&self, api_version: &str) -> Option<&Resource> {
        let prefix = &self.resource.info.storage_prefix;
        let all = self.registry.all.iter().map(|resource| &**resource);
        all.filter(|other| other.info.storage_prefix == *prefix)
            .find(|other| other.owned.api_version == api_version)
    }
}

impl Versions<BuiltIn> for Siblings<'_> {
    fn convert(
        &self,
        json: &[u8],
        api_version: &str,
    ) -> Result<Option<Converted<BuiltIn>>, Status> {
        let Some(other) = self.find(api_version) else {
            return Ok(None);
        };
        Ok(Some(Converted {
            schema: other.owned.schema,
            json: convert(json, self.resource, other)?,
        }))
    }

    fn restore(&self, json: &[u8], api_version: &str) -> Result<Vec<u8>, Status> {
        match self.find(api_version) {
            Some(other) => convert(json, other, self.resource),
            None => Ok(json.to_vec()),
        }
    }
}

fn convert(json: &[u8], from: &Resource, to: &Resource) -> Result<Vec<u8>, Status> {
    let stored = match from.strategy.conversion() {
        None => json.to_vec(),
        Some(conversion) => (conversion.to_stored)(json)?,
    };
    match to.strategy.conversion() {
        None => Ok(stored),
        Some(conversion) => (conversion.from_stored)(&stored),
    }
}
