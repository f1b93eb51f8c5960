//! The guest SDK: write a Pilothouse plugin in a few lines of Rust.
//!
//! A plugin is a type with a family's trait ([`admission::Admission`] and so on); [`export!`] names the plugins of a component
//! and the interfaces it exports:
//!
//! ```text
//! pilothouse_sdk::export! {
//!     admission(mutate, validate): [ServiceAccount],
//! }
//! ```
//!
//! Invariants: a component exports exactly the interfaces that [`export!`] names, plus `manifest`; every plugin also compiles
//! natively, with fakes for what the host offers ([`host::fake`], [`testing::FakeCluster`]), so that plugins have ordinary unit tests.
//!
//! A family is a module with: its generated bindings (one world per interface, see `bindings`), a trait with default bodies,
//! a function `declare` that adds its plugins to the manifest, a trait `Plugins` that [`export!`] implements for the component,
//! and a macro `export!` that takes the component, the index of the family's first plugin, the interfaces and the plugins.

pub mod admission;
#[doc(hidden)]
pub mod bindings;
pub mod cluster;
pub mod controller;
pub mod host;
pub mod manifest;
pub mod objects;
pub mod patch;
pub mod scheduler;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use serde_json::{Value, json};

/// Names the plugins of a component and the interfaces it exports, family by family.
///
/// Gives the crate a function `manifest()` (also natively, for tests) and, on wasm, the exports.
#[macro_export]
macro_rules! export {
    (@families $component:ident $first:expr;) => {};
    (@families $component:ident $first:expr;
        $family:ident($($interface:ident),+ $(,)?): [$($plugin:expr),+ $(,)?]
        $(, $($rest:tt)*)?
    ) => {
        $crate::$family::export!($component, $first, ($($interface),+), [$($plugin),+]);
        $crate::export!(@families $component $first + [$(stringify!($plugin)),+].len(); $($($rest)*)?);
    };
    ($($family:ident($($interface:ident),+ $(,)?): [$($plugin:expr),+ $(,)?]),+ $(,)?) => {
        /// What the component says about itself.
        pub fn manifest() -> $crate::manifest::Manifest {
            let mut manifest = $crate::manifest::Manifest::default();
            $($crate::$family::declare(&mut manifest, &[$(&$plugin),+]);)+
            manifest
        }

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            struct Component;
            impl $crate::manifest::Source for Component {
                fn manifest() -> $crate::manifest::Manifest {
                    manifest()
                }
            }
            $crate::bindings::manifest::export_manifest!(Component with_types_in $crate::bindings::manifest);
            $crate::export!(@families Component 0; $($family($($interface),+): [$($plugin),+]),+);
        };
    };
}
