//! The namespace controller: empties a namespace that is being deleted, says in its conditions what is left, and lets it go.
//! Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/>

mod conditions;
mod content;
mod reconcile;

use reconcile::Namespaces;

pilothouse_sdk::export! {
    controller(reconcile): [Namespaces],
}
