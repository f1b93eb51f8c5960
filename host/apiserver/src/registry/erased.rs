//! Strategies and objects without their type, so that the pipeline is compiled once and not once per kind.
//!
//! Invariants: a typed strategy only ever meets objects that it decoded itself; the downcasts that rest on this are all here.
//! Managed fields are never part of the typed value: they stay text, which most writes hand on unread.

use std::{any::Any, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_api::{
    Kind, ResourceInfo, Status,
    apply::{self, Scope},
    field::ErrorList,
    openapi::{self, SchemaProvider},
};
use serde_json::Value;

use super::{
    printing::Column,
    strategy::{Context, Conversion, NameFormat, Reservation, Strategy},
};

/// A typed object whose type only its strategy knows.
#[derive(Debug)]
pub struct AnyObject {
    object: Box<dyn ErasedObject>,
    /// The value of `metadata.managedFields`.
    managed: Option<Arc<str>>,
}

trait ErasedObject: std::fmt::Debug + Send + Sync {
    fn metadata(&self) -> &ObjectMeta;
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
    fn encode(&self) -> Vec<u8>;
    fn clone_boxed(&self) -> Box<dyn ErasedObject>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<K: Kind> ErasedObject for K {
    fn metadata(&self) -> &ObjectMeta {
        k8s_openapi::Metadata::metadata(self)
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        k8s_openapi::Metadata::metadata_mut(self)
    }

    fn encode(&self) -> Vec<u8> {
        Kind::encode(self)
    }

    fn clone_boxed(&self) -> Box<dyn ErasedObject> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Clone for AnyObject {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone_boxed(),
            managed: self.managed.clone(),
        }
    }
}

impl AnyObject {
    /// Forgets the type. Managed fields of the typed value are dropped.
    pub fn new<K: Kind>(mut object: K) -> Self {
        k8s_openapi::Metadata::metadata_mut(&mut object).managed_fields = None;
        Self {
            object: Box::new(object),
            managed: None,
        }
    }

    /// The value of `metadata.managedFields`, as text.
    pub fn managed(&self) -> Option<&Arc<str>> {
        self.managed.as_ref()
    }

    pub fn set_managed(&mut self, managed: Option<Arc<str>>) {
        self.managed = managed;
    }

    pub fn metadata(&self) -> &ObjectMeta {
        self.object.metadata()
    }

    pub fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.object.metadata_mut()
    }

    /// Compact JSON, with `resourceVersion` only if the metadata has one.
    pub fn encode(&self) -> Vec<u8> {
        match &self.managed {
            None => self.object.encode(),
            Some(managed) => apply::join(self.object.encode(), managed),
        }
    }

    /// The same without managed fields.
    pub fn encode_plain(&self) -> Vec<u8> {
        self.object.encode()
    }

    /// The typed value, for the few subresources that belong to one kind.
    pub fn downcast_ref<K: Kind>(&self) -> Option<&K> {
        self.object.as_any().downcast_ref()
    }

    /// The same, to be changed.
    pub fn downcast_mut<K: Kind>(&mut self) -> Option<&mut K> {
        self.object.as_any_mut().downcast_mut()
    }

    /// The name, empty if there is none yet.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// The namespace, empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    /// The uid, empty before creation.
    pub fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }
}

/// What the scale subresource shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleView {
    pub replicas: i32,
    pub status_replicas: i32,
    pub selector: String,
}

/// [`Strategy`] in object-safe form. Its methods are those of the trait; see there.
pub trait ErasedStrategy: Send + Sync {
    fn resource(&self) -> &ResourceInfo;
    fn decode(&self, json: &[u8]) -> Result<AnyObject, Status>;
    fn default(&self, object: &mut AnyObject);
    fn prepare_for_create(&self, context: &Context, object: &mut AnyObject);
    fn prepare_for_update(&self, context: &Context, new: &mut AnyObject, old: &AnyObject);
    fn has_status(&self) -> bool;
    fn prepare_for_status_update(&self, new: &mut AnyObject, old: &AnyObject);
    fn settle_status(&self, context: &Context, new: &mut AnyObject, old: &AnyObject);
    /// The names of [`Strategy::parts`].
    fn part_names(&self) -> Vec<&'static str>;
    fn keep_all_but(&self, part: &str, context: &Context, new: &mut AnyObject, old: &AnyObject);
    fn validate_part(&self, part: &str, new: &AnyObject, old: &AnyObject) -> ErrorList;
    fn has_finalize(&self) -> bool;
    /// What a write to a subresource, `""` for the object itself, may change and its manager thereby own.
    fn owned_scope(&self, subresource: &str) -> Scope;
    fn prepare_for_finalize(&self, new: &mut AnyObject, old: &AnyObject);
    fn generation_changed(&self, new: &AnyObject, old: &AnyObject) -> Option<bool>;
    fn validate(&self, object: &AnyObject) -> ErrorList;
    fn validate_create(&self, object: &AnyObject) -> ErrorList;
    fn validate_update(&self, new: &AnyObject, old: &AnyObject) -> ErrorList;
    fn validate_status_update(&self, new: &AnyObject, old: &AnyObject) -> ErrorList;
    fn warnings(&self, object: &AnyObject) -> Vec<String>;
    fn name_format(&self) -> NameFormat;
    fn allow_create_on_update(&self) -> bool;
    fn allow_unconditional_update(&self) -> bool;
    fn deletion_grace_seconds(&self, object: &AnyObject, asked: Option<i64>) -> Option<i64>;
    fn prepare_for_deletion(&self, object: &mut AnyObject);
    fn has_own_finalizers(&self, object: &AnyObject) -> bool;
    fn allow_delete_collection(&self) -> bool;
    fn returns_deleted_object(&self) -> bool;
    fn orphans_by_default(&self) -> bool;
    fn garbage_collected(&self) -> bool;
    fn validate_delete(&self, object: &AnyObject) -> Result<(), Status>;
    fn ttl_seconds(&self, object: &AnyObject) -> Option<u64>;
    fn reserve(
        &self,
        new: &mut AnyObject,
        old: Option<&AnyObject>,
        dry_run: bool,
    ) -> Result<Option<Box<dyn Reservation>>, Status>;
    fn reserves(&self) -> bool;
    fn release(&self, object: &AnyObject) -> Option<Box<dyn Reservation>>;
    fn has_scale(&self) -> bool;
    fn scale(&self, object: &AnyObject) -> Option<ScaleView>;
    fn set_replicas(&self, object: &mut AnyObject, replicas: i32);
    fn conversion(&self) -> Option<&Conversion>;
    fn columns(&self) -> Vec<Column>;
    fn row(&self, object: &AnyObject, now: jiff::Timestamp) -> Vec<Value>;
    /// The kind's schema for OpenAPI.
    fn schema(&self) -> SchemaProvider;
}

/// A strategy without its type, as the table of kinds holds it.
pub fn erase<S: Strategy>(strategy: S) -> Arc<dyn ErasedStrategy> {
    Arc::new(Erased {
        info: strategy.resource(),
        conversion: strategy.conversion(),
        strategy,
    })
}

struct Erased<S> {
    strategy: S,
    info: ResourceInfo,
    conversion: Option<Conversion>,
}

/// The typed value behind `object`.
fn typed<K: Kind>(object: &AnyObject) -> &K {
    match object.downcast_ref() {
        Some(typed) => typed,
        None => unreachable!("a strategy met an object of another kind"),
    }
}

/// The same, to be changed.
fn typed_mut<K: Kind>(object: &mut AnyObject) -> &mut K {
    match object.downcast_mut() {
        Some(typed) => typed,
        None => unreachable!("a strategy met an object of another kind"),
    }
}

impl<S: Strategy> ErasedStrategy for Erased<S> {
    fn resource(&self) -> &ResourceInfo {
        &self.info
    }

    fn decode(&self, json: &[u8]) -> Result<AnyObject, Status> {
        let (plain, managed) = apply::split(json);
        let mut object = AnyObject::new(S::Object::decode(&plain)?);
        if let Some(managed) = managed {
            object.managed = Some(managed.into());
        }
        Ok(object)
    }

    fn default(&self, object: &mut AnyObject) {
        self.strategy.default(typed_mut(object));
    }

    fn prepare_for_create(&self, context: &Context, object: &mut AnyObject) {
        self.strategy.prepare_for_create(context, typed_mut(object));
    }

    fn prepare_for_update(&self, context: &Context, new: &mut AnyObject, old: &AnyObject) {
        self.strategy
            .prepare_for_update(context, typed_mut(new), typed(old));
    }

    fn has_status(&self) -> bool {
        self.strategy.prepare_for_status_update().is_some()
    }

    fn prepare_for_status_update(&self, new: &mut AnyObject, old: &AnyObject) {
        if let Some(prepare) = self.strategy.prepare_for_status_update() {
            prepare(typed_mut(new), typed(old));
        }
    }

    fn settle_status(&self, context: &Context, new: &mut AnyObject, old: &AnyObject) {
        self.strategy
            .settle_status(context, typed_mut(new), typed(old));
    }

    fn part_names(&self) -> Vec<&'static str> {
        let parts = self.strategy.parts();
        parts.iter().map(|part| part.name).collect()
    }

    fn keep_all_but(&self, part: &str, context: &Context, new: &mut AnyObject, old: &AnyObject) {
        let parts = self.strategy.parts();
        if let Some(part) = parts.iter().find(|p| p.name == part) {
            (part.keep)(context, typed_mut(new), typed(old));
        }
    }

    fn validate_part(&self, part: &str, new: &AnyObject, old: &AnyObject) -> ErrorList {
        let parts = self.strategy.parts();
        let part = parts.iter().find(|p| p.name == part);
        part.map_or_else(ErrorList::new, |part| {
            (part.validate)(typed(new), typed(old))
        })
    }

    fn has_finalize(&self) -> bool {
        self.strategy.prepare_for_finalize().is_some()
    }

    fn owned_scope(&self, subresource: &str) -> Scope {
        if let Some(scope) = self.strategy.owned_scope(subresource) {
            return scope;
        }
        match subresource {
            "status" => Scope::Without(&[&["spec"]]),
            _ if self.has_status() => Scope::Without(&[&["status"]]),
            _ => Scope::Without(&[]),
        }
    }

    fn prepare_for_finalize(&self, new: &mut AnyObject, old: &AnyObject) {
        if let Some(prepare) = self.strategy.prepare_for_finalize() {
            prepare(typed_mut(new), typed(old));
        }
    }

    fn generation_changed(&self, new: &AnyObject, old: &AnyObject) -> Option<bool> {
        self.strategy.generation_changed(typed(new), typed(old))
    }

    fn validate(&self, object: &AnyObject) -> ErrorList {
        self.strategy.validate(typed(object))
    }

    fn validate_create(&self, object: &AnyObject) -> ErrorList {
        self.strategy.validate_create(typed(object))
    }

    fn validate_update(&self, new: &AnyObject, old: &AnyObject) -> ErrorList {
        self.strategy.validate_update(typed(new), typed(old))
    }

    fn validate_status_update(&self, new: &AnyObject, old: &AnyObject) -> ErrorList {
        self.strategy.validate_status_update(typed(new), typed(old))
    }

    fn warnings(&self, object: &AnyObject) -> Vec<String> {
        self.strategy.warnings(typed(object))
    }

    fn name_format(&self) -> NameFormat {
        self.strategy.name_format()
    }

    fn allow_create_on_update(&self) -> bool {
        self.strategy.allow_create_on_update()
    }

    fn allow_unconditional_update(&self) -> bool {
        self.strategy.allow_unconditional_update()
    }

    fn deletion_grace_seconds(&self, object: &AnyObject, asked: Option<i64>) -> Option<i64> {
        self.strategy.deletion_grace_seconds(typed(object), asked)
    }

    fn prepare_for_deletion(&self, object: &mut AnyObject) {
        self.strategy.prepare_for_deletion(typed_mut(object));
    }

    fn has_own_finalizers(&self, object: &AnyObject) -> bool {
        self.strategy.has_own_finalizers(typed(object))
    }

    fn allow_delete_collection(&self) -> bool {
        self.strategy.allow_delete_collection()
    }

    fn returns_deleted_object(&self) -> bool {
        self.strategy.returns_deleted_object()
    }

    fn orphans_by_default(&self) -> bool {
        self.strategy.orphans_by_default()
    }

    fn garbage_collected(&self) -> bool {
        self.strategy.garbage_collected()
    }

    fn validate_delete(&self, object: &AnyObject) -> Result<(), Status> {
        self.strategy.validate_delete(typed(object))
    }

    fn ttl_seconds(&self, object: &AnyObject) -> Option<u64> {
        self.strategy.ttl_seconds(typed(object))
    }

    fn reserve(
        &self,
        new: &mut AnyObject,
        old: Option<&AnyObject>,
        dry_run: bool,
    ) -> Result<Option<Box<dyn Reservation>>, Status> {
        self.strategy
            .reserve(typed_mut(new), old.map(typed), dry_run)
    }

    fn reserves(&self) -> bool {
        self.strategy.reserves()
    }

    fn release(&self, object: &AnyObject) -> Option<Box<dyn Reservation>> {
        self.strategy.release(typed(object))
    }

    fn has_scale(&self) -> bool {
        self.strategy.scale().is_some()
    }

    fn scale(&self, object: &AnyObject) -> Option<ScaleView> {
        let scale = self.strategy.scale()?;
        let object = typed(object);
        Some(ScaleView {
            replicas: (scale.replicas)(object),
            status_replicas: (scale.status_replicas)(object),
            selector: (scale.selector)(object),
        })
    }

    fn set_replicas(&self, object: &mut AnyObject, replicas: i32) {
        if let Some(scale) = self.strategy.scale() {
            (scale.set_replicas)(typed_mut(object), replicas);
        }
    }

    fn conversion(&self) -> Option<&Conversion> {
        self.conversion.as_ref()
    }

    fn columns(&self) -> Vec<Column> {
        self.strategy.columns()
    }

    fn row(&self, object: &AnyObject, now: jiff::Timestamp) -> Vec<Value> {
        self.strategy.row(typed(object), now)
    }

    fn schema(&self) -> SchemaProvider {
        openapi::provider::<S::Object>()
    }
}
