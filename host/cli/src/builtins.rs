//! The plugins that ship inside the binary. They are components like any other and are loaded the same way.

/// Crate name and component of every built-in plugin, in the order of their names.
pub(crate) const BUILTIN_PLUGINS: &[(&str, &[u8])] =
    include!(concat!(env!("OUT_DIR"), "/builtin_plugins.rs"));
