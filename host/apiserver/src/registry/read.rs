//! Reads: single objects, lists at a consistent revision, changes.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use pilothouse_api::{
    FieldSelector, Header, LabelSelector, Object, Revision, SharedObject, Status,
};
use pilothouse_storage::{CacheWatch, RangeRequest, StorageError};
use serde::{Deserialize, Serialize};

use super::{Registry, Resource, errors};
use crate::query::{ListOptions, VersionMatch};

/// The most objects of the past that are read at once for one page.
const MAX_LOOKED_AT: usize = 10_000;
/// How long a read waits for a revision that is yet to come.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// Which objects of a resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Empty: all.
    pub namespace: String,
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Selection {
    /// Reads the selectors of a list or watch; a field that cannot be selected by is 400.
    pub(crate) fn parse(
        resource: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Self, Status> {
        let labels = LabelSelector::parse(&options.label_selector).map_err(|error| {
            Status::bad_request(format!("unable to parse requirement: {error}"))
        })?;
        Ok(Self {
            namespace: match resource.info.namespaced {
                true => namespace.to_owned(),
                false => String::new(),
            },
            labels,
            fields: FieldSelector::parse(&options.field_selector, &resource.info)?,
        })
    }

    /// Whether an object is among them; its namespace is settled by where it was looked for.
    pub(crate) fn matches(&self, header: &Header) -> bool {
        (self.namespace.is_empty() || self.namespace == header.namespace)
            && self.labels.matches(header)
            && self.fields.matches(header)
    }

    /// The storage key of the only object that can be among them, if they name one.
    fn only_key(&self, resource: &Resource) -> Option<String> {
        let name = self.fields.exact("metadata.name")?;
        let somewhere = !resource.info.namespaced || !self.namespace.is_empty();
        somewhere.then(|| resource.info.storage_key(&self.namespace, name))
    }

    /// Whether there are no selectors.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }
}

/// A list, or a part of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub items: Vec<SharedObject>,
    /// One for all pages of a list.
    pub revision: Revision,
    /// Empty on the last page.
    pub continue_token: String,
    /// How many are left; only without selectors.
    pub remaining: Option<usize>,
}

impl Page {
    /// More follow the object with this key.
    fn end_at(&mut self, key: &str, prefix: &str) {
        let next = format!("{}\0", key.strip_prefix(prefix).unwrap_or(key));
        let revision = i64::try_from(self.revision.0).unwrap_or(-1);
        self.continue_token = Token::encode(revision, &next);
    }
}

/// What a continue token carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Token {
    v: String,
    /// The revision of the list; -1: whatever is there now.
    rv: i64,
    /// The first key of the next page, below the resource's prefix.
    start: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl Token {
    fn encode(revision: i64, start: &str) -> String {
        let token = Self {
            v: TOKEN_VERSION.to_owned(),
            rv: revision,
            start: start.to_owned(),
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default()) // plain fields: cannot fail
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let invalid = |why: &str| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let json = URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|error| invalid(&error.to_string()))?;
        let token: Self =
            serde_json::from_slice(&json).map_err(|error| invalid(&error.to_string()))?;
        // a key that climbs out of its prefix is nobody's
        let climbs = token
            .start
            .trim_start_matches('/')
            .split('/')
            .any(|part| matches!(part, "" | "." | ".."));
        match (token.v.as_str(), token.rv) {
            (TOKEN_VERSION, 0) => Err(invalid(
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            )),
            (TOKEN_VERSION, _) if token.start.is_empty() => {
                Err(invalid("encoded start key empty (version meta.k8s.io/v1)"))
            }
            (TOKEN_VERSION, _) if climbs => Err(invalid(&token.start)),
            (TOKEN_VERSION, _) => Ok(token),
            _ => Err(invalid("server does not recognize this encoded version")),
        }
    }
}

/// Reads `resourceVersion`; `None` for absent.
pub(crate) fn revision_of(text: &str) -> Result<Option<Revision>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(|r| Some(Revision(r))).map_err(|_| {
        Status::bad_request(format!(
            "invalid resource version {text:?}: must be an unsigned integer"
        ))
    })
}

impl Resource {
    /// What readers get of a cached object: itself, or its form in this group and version.
    pub(crate) fn served(&self, cached: &SharedObject) -> Result<SharedObject, Status> {
        match self.strategy.conversion() {
            None => Ok(cached.clone()),
            Some(conversion) => self.converted.get(cached, conversion),
        }
    }

    /// The namespace to look in; `None` for all.
    fn scope<'a>(&self, namespace: &'a str) -> Option<&'a str> {
        (self.info.namespaced && !namespace.is_empty()).then_some(namespace)
    }

    /// Changes after a revision, in a namespace (empty: in all). `Expired` if some are no longer known.
    pub(crate) fn subscribe(&self, namespace: &str, after: Revision) -> Result<CacheWatch, Status> {
        self.cache
            .subscribe(self.scope(namespace), Some(after))
            .map_err(errors::from_cache)
    }

    /// Waits for what the caller has seen: nothing for `0`, everything that has been answered for no revision at all.
    pub(crate) async fn catch_up(&self, asked: Option<Revision>) -> Result<(), Status> {
        let caught_up = match asked {
            None => self.cache.catch_up(FRESHNESS_WAIT).await.map(|_| ()),
            Some(Revision(0)) => Ok(()),
            Some(revision) => self.cache.wait_until(revision, FRESHNESS_WAIT).await,
        };
        caught_up.map_err(errors::from_cache)
    }
}

impl Registry {
    /// One object. `version` is the query's `resourceVersion`.
    pub async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        version: &str,
    ) -> Result<SharedObject, Status> {
        let found = match revision_of(version)? {
            None => resource
                .cache
                .get_fresh(namespace, name)
                .await
                .map(|(found, _)| found),
            asked => {
                resource.catch_up(asked).await?;
                resource.cache.get(namespace, name)
            }
        };
        match found.map_err(errors::from_cache)? {
            Some(object) => resource.served(&object),
            None => Err(Status::not_found(&resource.info.group_resource(), name)),
        }
    }

    /// A list as its options ask for it.
    pub(crate) async fn list(
        &self,
        resource: &Resource,
        selection: &Selection,
        options: &ListOptions,
    ) -> Result<Page, Status> {
        let prefix = resource.info.storage_key_prefix(&selection.namespace);
        let asked = revision_of(&options.resource_version)?;
        let mut start = prefix.clone();
        let mut exact = None;
        if !options.continue_token.is_empty() {
            if asked.is_some_and(|r| r.0 != 0) {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let token = Token::decode(&options.continue_token)?;
            start.push_str(&token.start);
            exact = u64::try_from(token.rv).ok().map(Revision);
        } else if let Some(revision) = asked.filter(|r| r.0 != 0) {
            let is_exact = match options.version_match {
                Some(VersionMatch::Exact) => true,
                Some(VersionMatch::NotOlderThan) => false,
                None => options.limit > 0,
            };
            exact = is_exact.then_some(revision);
        }
        let fresh_enough = match exact {
            Some(revision) => Some(revision),
            None if options.continue_token.is_empty() => asked,
            None => None,
        };
        resource.catch_up(fresh_enough).await?;
        let limit = match asked {
            Some(Revision(0)) if options.continue_token.is_empty() => 0, // any state, all of it
            _ => options.limit,
        };
        let cached = resource.cache.list(None).map_err(errors::from_cache)?;
        let mut page = Page::default();
        match exact.filter(|revision| *revision != cached.revision) {
            None => {
                page.revision = cached.revision;
                // of one name there is one key: the others are not looked at
                let only = selection.only_key(resource);
                let start = only.as_deref().map_or(&*start, |only| only.max(&start));
                let objects = cached
                    .from(start)
                    .take_while(|(key, _)| match &only {
                        Some(only) => ***key == **only,
                        None => key.starts_with(&prefix),
                    })
                    .map(|(key, object)| (key.as_ref(), object));
                cut(&mut page, objects, selection, &prefix, limit);
            }
            Some(revision) => {
                self.list_past(
                    &mut page,
                    resource,
                    selection,
                    (&prefix, start),
                    revision,
                    limit,
                )
                .await?
            }
        }
        for item in &mut page.items {
            *item = resource.served(item)?;
        }
        Ok(page)
    }

    /// A list at a revision that the cache has left behind: storage still knows it.
    async fn list_past(
        &self,
        page: &mut Page,
        resource: &Resource,
        selection: &Selection,
        (prefix, start): (&str, String),
        revision: Revision,
        limit: usize,
    ) -> Result<(), Status> {
        page.revision = revision;
        let fields = &resource.cache.resource().selectable_fields;
        let mut range = RangeRequest {
            start,
            revision: Some(revision),
            limit,
            ..RangeRequest::prefix(prefix)
        };
        loop {
            let found = match self.storage.range(range.clone()).await {
                Ok(found) => found,
                Err(StorageError::Compacted { .. }) => return Err(expired(&range.start, prefix)),
                Err(error) => return Err(errors::from_storage(error)),
            };
            for (index, kv) in found.kvs.iter().enumerate() {
                let stored = kv.readable().map_err(errors::from_storage)?;
                let object = Object::from_stored(stored, kv.mod_revision, fields);
                let object = Arc::new(object.map_err(Status::internal)?);
                if !selection.matches(&object.header) {
                    continue;
                }
                page.items.push(object);
                let left = found.count.saturating_sub(index + 1);
                if page.items.len() == limit && left > 0 {
                    page.end_at(&kv.key, prefix);
                    page.remaining = selection.is_everything().then_some(left);
                    return Ok(());
                }
            }
            match found.kvs.last() {
                Some(last) if found.more => range.start = format!("{}\0", last.key),
                _ => return Ok(()),
            }
            // the selectors leave much out: look at more at once
            range.limit = (range.limit * 2).min(MAX_LOOKED_AT);
        }
    }
}

/// Takes the selected objects up to the limit, and a token for the rest if there is one.
fn cut<'a>(
    page: &mut Page,
    objects: impl Iterator<Item = (&'a str, &'a SharedObject)>,
    selection: &Selection,
    prefix: &str,
    limit: usize,
) {
    let mut objects = objects.peekable();
    while let Some((key, object)) = objects.next() {
        if !selection.matches(&object.header) {
            continue;
        }
        page.items.push(object.clone());
        if page.items.len() == limit && objects.peek().is_some() {
            page.end_at(key, prefix);
            page.remaining = selection.is_everything().then(|| objects.count());
            return;
        }
    }
}

/// 410, for the pages of a list with a token by which it can go on at the present revision.
fn expired(start: &str, prefix: &str) -> Status {
    match start.strip_prefix(prefix) {
        Some(rest) if !rest.is_empty() => {
            let mut status = Status::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new \
                 list without the continue parameter, or use the continue token in this response to retrieve the \
                 remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
                 that were created, modified, or deleted between the time the first chunk was returned and now may show \
                 up in the list.",
            );
            status.continue_token = Some(Token::encode(-1, rest));
            status
        }
        _ => Status::expired("The resourceVersion for the provided list is too old."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_and_others_refused() {
        let token = Token::decode(&Token::encode(5, "default/a\0")).unwrap();
        assert_eq!((token.rv, token.start.as_str()), (5, "default/a\0"));
        for fine in [
            Token::encode(-1, "x"),
            Token::encode(-7, "x"),
            Token::encode(1, "/a/b"),
        ] {
            assert!(Token::decode(&fine).is_ok());
        }
        let other = URL_SAFE_NO_PAD.encode(br#"{"v":"meta.k8s.io/v9","rv":5,"start":"x"}"#);
        for wrong in [
            "",
            "!",
            &Token::encode(0, "x"),
            &Token::encode(5, ""),
            &Token::encode(5, "../secrets/a"),
            &Token::encode(5, "default//a"),
            &Token::encode(5, "default/./a"),
            &other,
        ] {
            assert_eq!(Token::decode(wrong).unwrap_err().code, 400, "{wrong}");
        }
    }
}
