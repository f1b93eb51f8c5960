mod binding;
mod defaults;
mod printing;
mod scheduling;
mod update;
mod validation;

use serde_json::{Value, json};

/// A pod with one container.
fn base() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "nginx", "image": "nginx"}]},
    })
}
