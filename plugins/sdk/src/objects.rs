//! Views of Kubernetes objects for guests: only the fields that decisions need, cheap to decode.
//!
//! A view is for reading. What a controller changes it writes as a patch, so that fields it does not know stay as they are;
//! a patch that must not act on stale data carries `metadata.resourceVersion` and is refused with `Conflict`.

mod condition;
mod hash;
mod int_or_string;
mod meta;
mod pod;
mod time;

pub use condition::{Condition, find_condition};
pub use hash::{canonical_json, fnv1a_32, safe_encode};
pub use int_or_string::IntOrString;
pub use meta::{ObjectMeta, OwnerReference, null_as_default};
pub use pod::{ContainerStatus, Pod, PodIp, PodSpec, PodStatus};
pub use time::{MicroTime, Time};
