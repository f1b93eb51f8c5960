//! Between the engine's types and etcd's: keys with and without the prefix, transactions, events.

use std::sync::Arc;

use etcd_client::{
    Compare as EtcdCompare, CompareOp, EventType, PutOptions, ResponseHeader, Txn as EtcdTxn,
    TxnOp, TxnOpResponse,
};

use super::options::ROOT;
use crate::engine::{
    AtRest, Compare, Event, EventKind, KeyValue, Lease, Op, Result, Revision, StorageError, Txn,
    TxnResponse, prefix_end,
};

/// Keys as etcd has them: another prefix may stand for `/registry`.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// Without a slash at its end.
    root: String,
}

impl Keys {
    /// `/registry`, `registry` and `/registry/` are the same prefix.
    pub(super) fn new(prefix: &str) -> Self {
        let root = match prefix.trim_matches('/') {
            "" => String::new(),
            name => format!("/{name}"),
        };
        Self { root }
    }

    /// `Invalid` for a key that is not below `/registry`: other keys of etcd are not the engine's.
    pub(super) fn outer(&self, key: &str) -> Result<String> {
        match key.strip_prefix(ROOT) {
            Some(rest) if rest.starts_with('/') => Ok(format!("{}{rest}", self.root)),
            _ => Err(StorageError::Invalid(format!(
                "{key:?} does not lie below {ROOT}"
            ))),
        }
    }

    /// One end of a range, moved to where the engine's keys begin or end if it lies outside.
    pub(super) fn bound(&self, key: &str) -> String {
        match key.strip_prefix(ROOT) {
            Some(rest) if !rest.is_empty() => format!("{}{rest}", self.root),
            Some(_) => format!("{}/", self.root),
            None if key < ROOT => format!("{}/", self.root),
            None => format!("{}0", self.root), // the first character after the slash
        }
    }

    /// Where the keys of a prefix begin and end.
    pub(super) fn range_of(&self, prefix: &str) -> (String, String) {
        (self.bound(prefix), self.bound(&prefix_end(prefix)))
    }

    /// A key that is never there, for reads that are only about revisions; whoever may read anything may read it.
    pub(super) fn nothing(&self) -> String {
        format!("{}/", self.root)
    }

    /// `None` for keys of somebody else.
    fn inner(&self, key: &[u8]) -> Option<Arc<str>> {
        let key = std::str::from_utf8(key).ok()?;
        let rest = key.strip_prefix(&self.root)?;
        match rest.starts_with('/') {
            true if self.root == ROOT => Some(key.into()),
            true => Some(format!("{ROOT}{rest}").into()),
            false => None,
        }
    }

    pub(super) fn key_value(&self, kv: etcd_client::KeyValue) -> Option<KeyValue> {
        let key = self.inner(kv.key())?;
        let (create, modified, version, lease) = (
            kv.create_revision(),
            kv.mod_revision(),
            kv.version(),
            kv.lease(),
        );
        let (_, value) = kv.into_key_value();
        Some(KeyValue {
            key,
            value: value.into(),
            create_revision: Revision(create.cast_unsigned()),
            mod_revision: Revision(modified.cast_unsigned()),
            version: version.cast_unsigned(),
            lease: Lease(lease),
            at_rest: AtRest::Fresh,
        })
    }

    /// `None` for keys of somebody else.
    pub(super) fn event(&self, event: &etcd_client::Event) -> Option<Event> {
        Some(Event {
            kind: match event.event_type() {
                EventType::Put => EventKind::Put,
                EventType::Delete => EventKind::Delete,
            },
            kv: self.key_value(event.kv()?.clone())?,
            previous: None,
        })
    }

    pub(super) fn txn(&self, txn: Txn) -> Result<EtcdTxn> {
        let compare = |compare: &Compare| {
            let Compare::ModRevision(key, expected) = compare;
            let key = self.outer(key)?;
            Ok(EtcdCompare::mod_revision(
                key,
                CompareOp::Equal,
                number(*expected),
            ))
        };
        let compares = txn.compares.iter().map(compare);
        Ok(EtcdTxn::new()
            .when(compares.collect::<Result<Vec<EtcdCompare>>>()?)
            .and_then(self.ops(txn.success)?)
            .or_else(self.ops(txn.failure)?))
    }

    fn ops(&self, ops: Vec<Op>) -> Result<Vec<TxnOp>> {
        let op = |op| {
            Ok(match op {
                Op::Put { key, value, lease } => {
                    let options = (lease.0 != 0).then(|| PutOptions::new().with_lease(lease.0));
                    TxnOp::put(self.outer(&key)?, value, options)
                }
                Op::Delete { key } => TxnOp::delete(self.outer(&key)?, None),
                Op::Get { key } => TxnOp::get(self.outer(&key)?, None),
            })
        };
        ops.into_iter().map(op).collect()
    }

    pub(super) fn txn_response(&self, response: &etcd_client::TxnResponse) -> TxnResponse {
        let get = |response| match response {
            TxnOpResponse::Get(mut get) => {
                let kv = get.take_kvs().into_iter().next();
                Some(kv.and_then(|kv| self.key_value(kv)))
            }
            _ => None,
        };
        TxnResponse {
            revision: revision(response.header()),
            succeeded: response.succeeded(),
            gets: response
                .op_responses()
                .into_iter()
                .filter_map(get)
                .collect(),
        }
    }
}

/// Every answer of etcd has a header; without one the revision is unknown, which is zero.
pub(super) fn revision(header: Option<&ResponseHeader>) -> Revision {
    Revision(header.map_or(0, |h| h.revision().cast_unsigned()))
}

pub(super) fn number(revision: Revision) -> i64 {
    revision.0.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_stands_for_registry() {
        // the prefix as given, where a pod lies
        let cases = [
            ("/registry", "/registry/pods/a"),
            ("registry/", "/registry/pods/a"),
            ("/clusters/one", "/clusters/one/pods/a"),
            ("", "/pods/a"),
            ("/", "/pods/a"),
        ];
        for (prefix, outer) in cases {
            let keys = Keys::new(prefix);
            assert_eq!(keys.outer("/registry/pods/a").unwrap(), outer, "{prefix}");
            let inner = keys.inner(outer.as_bytes());
            assert_eq!(inner.as_deref(), Some("/registry/pods/a"), "{prefix}");
        }
        let keys = Keys::new("/one");
        for foreign in [
            &b"/one"[..],
            b"/one2/pods/a",
            b"/registry/pods/a",
            b"/one/\xff",
        ] {
            assert_eq!(keys.inner(foreign), None);
        }
        for foreign in ["compact_rev_key", "/registry", "/registry2/a", ""] {
            let error = keys.outer(foreign);
            assert!(matches!(error, Err(StorageError::Invalid(_))), "{foreign}");
        }
    }

    #[test]
    fn ranges_stay_below_the_prefix() {
        let keys = Keys::new("/one");
        // the prefix that is asked for, the range in etcd
        let cases = [
            ("/registry/pods/", "/one/pods/", "/one/pods0"),
            ("/registry/", "/one/", "/one0"),
            ("/registry", "/one/", "/one0"),
            ("", "/one/", "/one0"),
            ("/", "/one/", "/one0"),
            ("zebra", "/one0", "/one0"),
        ];
        for (prefix, start, end) in cases {
            let expected = (start.to_owned(), end.to_owned());
            assert_eq!(keys.range_of(prefix), expected, "{prefix}");
        }
    }
}
