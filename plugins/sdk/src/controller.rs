//! Writing a controller: implement [`Reconciler`], which says what it watches and may do, and export it.
//!
//! ```text
//! struct Greeter;
//! impl Reconciler for Greeter {
//!     fn entry(&self) -> Entry {
//!         Entry::new("greeter")
//!             .watch(Watch::own(&CONFIG_MAPS))
//!             .may(&["get", "list", "watch", "patch"], "", &["configmaps"])
//!     }
//!
//!     fn reconcile(&self, context: &Context, key: &Key) -> Result<Outcome, Error> {
//!         let Some(map) = context.cluster.get::<Value>(&CONFIG_MAPS, &key.namespace, &key.name)? else {
//!             return Ok(Outcome::Done);
//!         };
//!         …
//!     }
//! }
//! pilothouse_sdk::export! { controller(reconcile): [Greeter] }
//! ```
//!
//! Invariant: a reconcile keeps nothing in memory for the next one. The host runs a key again only when its caches have
//! seen what the last run wrote, so what `get` and `list` answer includes a controller's own writes.

mod claim;
mod entry;
mod error;
mod export;
mod object;
mod selector;

pub use claim::{Claim, HasMeta, Owning};
pub use entry::{Entry, Settings, Watch};
pub use error::Error;
#[doc(hidden)]
pub use export::{Plugins, declare};
pub use object::ObjectExt;
pub use selector::Selector;

use serde_json::Value;

use crate::cluster::Cluster;

/// What to reconcile. The namespace is empty for cluster-scoped objects; both are empty for a singleton.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// How a reconcile ended; an error is retried with back-off instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until something changes.
    Done,
    /// Run again after so many milliseconds, earlier if something changes.
    RequeueAfterMs(u64),
}

/// What a call may use.
pub struct Context<'a> {
    pub cluster: &'a dyn Cluster,
    /// `spec.config` of the Plugin object; an empty object if there is none.
    pub config: &'a Value,
}

/// What happened to a watched object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// An event of a watch whose `map` is `custom`.
pub struct WatchEvent<'a> {
    /// The index of the watch in the manifest.
    pub watch: u32,
    pub change: Change,
    /// The object after the change; its last state if it was deleted.
    pub object: &'a [u8],
    /// The object before a modification.
    pub old: Option<&'a [u8]>,
}

/// A controller.
pub trait Reconciler: Sync {
    /// The name, what is watched and what it may do.
    fn entry(&self) -> Entry;

    /// Brings the world nearer to what the object named by `key` asks.
    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error>;

    /// The keys that an event of a `custom` watch concerns.
    fn map_event(&self, _context: &Context<'_>, _event: &WatchEvent<'_>) -> Vec<Key> {
        Vec::new()
    }
}

#[doc(hidden)]
pub use crate::__controller_export as export;
