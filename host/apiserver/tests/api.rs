//! The API server from outside: in the same process through its pipeline, and over TLS.

#[path = "api/facts.rs"]
mod facts;
#[path = "api/harness.rs"]
mod harness;

#[path = "api/apply.rs"]
mod apply;
#[path = "api/consistency.rs"]
mod consistency;
#[path = "api/counting.rs"]
mod counting;
#[path = "api/decoders.rs"]
mod decoders;
#[path = "api/delete.rs"]
mod delete;
#[path = "api/discovery.rs"]
mod discovery;
#[path = "api/http.rs"]
mod http_behaviour;
#[path = "api/kinds.rs"]
mod kinds;
#[path = "api/lists.rs"]
mod lists;
#[path = "api/patch.rs"]
mod patch;
#[path = "api/pods.rs"]
mod pods;
#[path = "api/protobuf.rs"]
mod protobuf_encoding;
#[path = "api/reads.rs"]
mod reads;
#[path = "api/reviews.rs"]
mod reviews;
#[path = "api/serving.rs"]
mod serving;
#[path = "api/several.rs"]
mod several;
#[path = "api/snapshots.rs"]
mod snapshots;
#[path = "api/storage_trouble.rs"]
mod storage_trouble;
#[path = "api/tls.rs"]
mod tls;
#[path = "api/tokens.rs"]
mod tokens;
#[path = "api/too_large.rs"]
mod too_large;
#[path = "api/versions.rs"]
mod versions;
#[path = "api/watch.rs"]
mod watch;
#[path = "api/write.rs"]
mod write;
