//! From the exported functions of a component to its reconcilers.

use serde_json::Value;

use super::{Change, Context, Key, Outcome, Reconciler, WatchEvent};
use crate::{
    bindings::{
        controller::types, map_event::exports::pilothouse::controller::map_event,
        reconcile::exports::pilothouse::controller::reconcile,
    },
    cluster::{Cluster, Host},
    host,
    manifest::Manifest,
};

/// Adds the controllers to the manifest, in the order of their indexes.
pub fn declare(manifest: &mut Manifest, plugins: &[&dyn Reconciler]) {
    manifest.plugins.extend(plugins.iter().map(|plugin| {
        let entry = plugin.entry();
        crate::manifest::Plugin {
            name: entry.name,
            capabilities: entry.capabilities,
            controller: Some(entry.settings),
            ..Default::default()
        }
    }));
}

/// Implemented by [`crate::export!`] for the component.
pub trait Plugins {
    fn controller(index: u32) -> Option<&'static dyn Reconciler>;
}

impl<T: Plugins> reconcile::Guest for T {
    fn reconcile(index: u32, key: types::Key) -> Result<reconcile::Outcome, String> {
        let plugin = T::controller(index).ok_or_else(|| format!("no controller {index}"))?;
        let config: Value = host::config()?;
        let context = Context {
            cluster: &Host,
            config: &config,
        };
        match plugin.reconcile(&context, &key.into()) {
            Ok(Outcome::Done) => Ok(reconcile::Outcome::Done),
            Ok(Outcome::RequeueAfterMs(ms)) => Ok(reconcile::Outcome::RequeueAfterMs(ms)),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl<T: Plugins> map_event::Guest for T {
    fn map_event(
        index: u32,
        watch: u32,
        change: map_event::Change,
        object: Vec<u8>,
        old: Option<Vec<u8>>,
    ) -> Vec<types::Key> {
        let config: Value = match host::config() {
            Ok(config) => config,
            Err(error) => {
                Host.warn(&error);
                Value::Null
            }
        };
        let context = Context {
            cluster: &Host,
            config: &config,
        };
        let event = WatchEvent {
            watch,
            change: match change {
                map_event::Change::Added => Change::Added,
                map_event::Change::Modified => Change::Modified,
                map_event::Change::Deleted => Change::Deleted,
            },
            object: &object,
            old: old.as_deref(),
        };
        let plugin = T::controller(index);
        let keys = plugin.map_or_else(Vec::new, |plugin| plugin.map_event(&context, &event));
        keys.into_iter().map(types::Key::from).collect()
    }
}

impl From<types::Key> for Key {
    fn from(key: types::Key) -> Self {
        Self {
            namespace: key.namespace,
            name: key.name,
        }
    }
}

impl From<Key> for types::Key {
    fn from(key: Key) -> Self {
        Self {
            namespace: key.namespace,
            name: key.name,
        }
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! __controller_export {
    ($component:ident, $first:expr, ($($interface:ident),+), [$($plugin:expr),+]) => {
        impl $crate::controller::Plugins for $component {
            fn controller(index: u32) -> Option<&'static dyn $crate::controller::Reconciler> {
                const PLUGINS: &[&dyn $crate::controller::Reconciler] = &[$(&$plugin),+];
                PLUGINS.get((index as usize).checked_sub($first)?).copied()
            }
        }
        $($crate::__controller_export!(@$interface $component);)+
    };
    (@reconcile $component:ident) => {
        $crate::bindings::reconcile::export_reconcile!($component with_types_in $crate::bindings::reconcile);
    };
    (@map_event $component:ident) => {
        $crate::bindings::map_event::export_map_event!($component with_types_in $crate::bindings::map_event);
    };
}
