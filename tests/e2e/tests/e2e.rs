//! End to end: a real process, stock clients, both storage engines.

#[path = "e2e/access.rs"]
mod access;
#[path = "e2e/api_groups.rs"]
mod api_groups;
#[path = "e2e/apply.rs"]
mod apply;
#[path = "e2e/bad_input.rs"]
mod bad_input;
#[path = "e2e/candidates.rs"]
mod candidates;
#[path = "e2e/encryption.rs"]
mod encryption;
#[path = "e2e/etcd_flags.rs"]
mod etcd_flags;
#[path = "e2e/helm.rs"]
mod helm;
#[path = "e2e/high_availability.rs"]
mod high_availability;
#[path = "e2e/kinds.rs"]
mod kinds;
#[path = "e2e/languages.rs"]
mod languages;
#[path = "e2e/other_clients.rs"]
mod other_clients;
#[path = "e2e/plugin_command.rs"]
mod plugin_command;
#[path = "e2e/plugins.rs"]
mod plugins;
#[path = "e2e/read_only.rs"]
mod read_only;
#[path = "e2e/restart.rs"]
mod restart;
#[path = "e2e/roles.rs"]
mod roles;
#[path = "e2e/rust_client.rs"]
mod rust_client;
#[path = "e2e/snapshots.rs"]
mod snapshots;
#[path = "e2e/transcript.rs"]
mod transcript;
#[path = "e2e/verbs.rs"]
mod verbs;
#[path = "e2e/workloads.rs"]
mod workloads;
