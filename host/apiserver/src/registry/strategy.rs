//! What is peculiar to a kind. The generic registry does everything else, the same way for every kind.
//! Source of the split: the strategies of <https://kubernetes.io/docs/concepts/overview/kubernetes-api/>.

pub use pilothouse_api::validation::NameFormat;
use pilothouse_api::{Kind, ResourceInfo, Status, apply::Scope, field::ErrorList};
use serde_json::Value;

use super::printing::Column;

/// Who asks, when, and with which options. Time and chance come in from outside.
#[derive(Clone, Debug)]
pub struct Context {
    pub user: pilothouse_client::UserInfo,
    /// Now, whole seconds, UTC.
    pub now: jiff::Timestamp,
    pub dry_run: bool,
}

pub use super::claims::Reservation;

/// Puts back into `new` what an update of a subresource may not touch.
pub type Keep<O> = fn(new: &mut O, old: &O);

/// A subresource that changes one part of an object and keeps the rest: `pods/resize`. It is read, replaced and patched like
/// the object itself.
pub struct Part<O> {
    /// The path element.
    pub name: &'static str,
    /// Puts back into `new` everything else, and sets what the server knows, such as times.
    pub keep: fn(context: &Context, new: &mut O, old: &O),
    /// Runs instead of [`Strategy::validate`] and [`Strategy::validate_update`].
    pub validate: fn(new: &O, old: &O) -> ErrorList,
}

/// The policy of one kind. Every method has the default that most kinds want.
pub trait Strategy: Send + Sync + 'static {
    /// The typed struct.
    type Object: Kind;

    /// Names, scope, verbs, selectable fields.
    fn resource(&self) -> ResourceInfo;

    /// Fills in defaults; runs on what clients send, after each admission, never on what is stored.
    fn default(&self, _object: &mut Self::Object) {}

    /// Before creation: clears what clients may not set (status), sets what is derived.
    fn prepare_for_create(&self, _context: &Context, _object: &mut Self::Object) {}

    /// Before an update of the main resource: keeps the old status.
    fn prepare_for_update(&self, _context: &Context, _new: &mut Self::Object, _old: &Self::Object) {
    }

    /// Before an update of `/status`: keeps everything but the status. `None`: the kind has no status subresource.
    fn prepare_for_status_update(&self) -> Option<Keep<Self::Object>> {
        None
    }

    /// After that: what a change of the status makes the server write into it.
    fn settle_status(&self, _context: &Context, _new: &mut Self::Object, _old: &Self::Object) {}

    /// Further subresources that change a part of the object.
    fn parts(&self) -> Vec<Part<Self::Object>> {
        Vec::new()
    }

    /// Before an update of `/finalize`: keeps everything but the finalizers in `spec`. `None`: there is no such subresource.
    fn prepare_for_finalize(&self) -> Option<Keep<Self::Object>> {
        None
    }

    /// What a write to a subresource (`""`: the object itself) may change, and its manager thereby own. `None`: all but the
    /// status, through `/status` all but the spec. Whatever else is put back must be left out here.
    fn owned_scope(&self, _subresource: &str) -> Option<Scope> {
        None
    }

    /// Whether the update changes what `metadata.generation` counts: for most kinds, `spec`. `None`: no generation is kept.
    fn generation_changed(&self, _new: &Self::Object, _old: &Self::Object) -> Option<bool> {
        None
    }

    /// The kind's own fields; metadata has been validated already.
    fn validate(&self, _object: &Self::Object) -> ErrorList {
        Vec::new()
    }

    /// Runs besides `validate` on a create: what only an update may set.
    fn validate_create(&self, _object: &Self::Object) -> ErrorList {
        Vec::new()
    }

    /// Runs besides `validate` on an update of the main resource: immutable fields.
    fn validate_update(&self, _new: &Self::Object, _old: &Self::Object) -> ErrorList {
        Vec::new()
    }

    /// Runs instead of both on an update of `/status`.
    fn validate_status_update(&self, _new: &Self::Object, _old: &Self::Object) -> ErrorList {
        Vec::new()
    }

    /// `Warning` headers for a create or update.
    fn warnings(&self, _object: &Self::Object) -> Vec<String> {
        Vec::new()
    }

    /// How names are checked; subdomain for most kinds, label for services and namespaces.
    fn name_format(&self) -> NameFormat {
        NameFormat::DnsSubdomain
    }

    /// PUT on a missing name creates.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// PUT without a `resourceVersion` overwrites.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// The grace in seconds that a DELETE gives the object, from what the caller asked; `None` deletes at once.
    fn deletion_grace_seconds(&self, _object: &Self::Object, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Before an object is stored that is being deleted for the first time: a namespace's phase becomes Terminating.
    fn prepare_for_deletion(&self, _object: &mut Self::Object) {}

    /// Whether something besides `metadata.finalizers` keeps a deleting object: a namespace's `spec.finalizers`.
    fn has_own_finalizers(&self, _object: &Self::Object) -> bool {
        false
    }

    /// Whether DELETE of a collection is allowed; not so for namespaces.
    fn allow_delete_collection(&self) -> bool {
        true
    }

    /// Whether a final DELETE answers with the object instead of a `Success` status.
    fn returns_deleted_object(&self) -> bool {
        false
    }

    /// Whether dependents are orphaned unless the caller says otherwise.
    fn orphans_by_default(&self) -> bool {
        false
    }

    /// Whether the garbage collector looks at the kind at all; if not, no propagation policy applies: events.
    fn garbage_collected(&self) -> bool {
        true
    }

    /// Refuses a deletion by policy, whoever asks: `kube-system`.
    fn validate_delete(&self, _object: &Self::Object) -> Result<(), Status> {
        Ok(())
    }

    /// Seconds after which the object disappears by itself: events.
    fn ttl_seconds(&self, _object: &Self::Object) -> Option<u64> {
        None
    }

    /// Takes shared resources for a create (`old` is `None`) or update, writing them into `new`.
    fn reserve(
        &self,
        _new: &mut Self::Object,
        _old: Option<&Self::Object>,
        _dry_run: bool,
    ) -> Result<Option<Box<dyn Reservation>>, Status> {
        Ok(None)
    }

    /// Whether `reserve` ever takes anything; then a create may have to choose again.
    fn reserves(&self) -> bool {
        false
    }

    /// What gives back all that an object holds, when it is deleted.
    fn release(&self, _object: &Self::Object) -> Option<Box<dyn Reservation>> {
        None
    }

    /// The scale subresource, for kinds that have one.
    fn scale(&self) -> Option<Scale<Self::Object>> {
        None
    }

    /// For a resource kept in the form of another group or version (both share one storage prefix). `None`: kept as served.
    fn conversion(&self) -> Option<Conversion> {
        None
    }

    /// The columns of `kubectl get`, the name column included; those with priority 1 show with `-o wide`.
    fn columns(&self) -> Vec<Column> {
        super::printing::default_columns()
    }

    /// The cells of one row, as many as there are columns.
    fn row(&self, object: &Self::Object, now: jiff::Timestamp) -> Vec<Value> {
        super::printing::default_row(object, now)
    }
}

/// How a resource that is kept in another form is converted, JSON to JSON. Its `selectable_fields` name the fields of the kept
/// form one by one: `regarding.kind` stands where `involvedObject.kind` does.
#[derive(Clone, Copy)]
pub struct Conversion {
    pub to_stored: fn(&[u8]) -> Result<Vec<u8>, Status>,
    pub from_stored: fn(&[u8]) -> Result<Vec<u8>, Status>,
}

/// How a kind's replicas are read and written through `autoscaling/v1` Scale.
pub struct Scale<O> {
    pub replicas: fn(&O) -> i32,
    pub set_replicas: fn(&mut O, i32),
    pub status_replicas: fn(&O) -> i32,
    /// The selector in its string form, for `status.selector`.
    pub selector: fn(&O) -> String,
}
