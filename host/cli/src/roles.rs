//! The roles, one a file: what each is composed of.

pub(crate) mod apiserver;
pub(crate) mod control;
pub(crate) mod controller_manager;
pub(crate) mod election;
pub(crate) mod scheduler;
pub(crate) mod up;
