//! Kinds that are asked and not stored: a POST is the question, what comes back the answer.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access>

use std::borrow::Cow;

use k8s_openapi::api::{
    authentication::v1::{SelfSubjectReview, TokenReview},
    authorization::v1::{
        LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview,
        SubjectAccessReview,
    },
    core::v1::Binding,
};
use pilothouse_api::{
    GroupVersionResource, ResourceInfo,
    openapi::{SchemaProvider, provider},
};

/// One of them. `bindings` is among them, the older way to write `pods/x/binding`.
pub(crate) struct Review {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) schema: fn() -> SchemaProvider,
}

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// All of them; their only verb is `create`.
pub(crate) static REVIEWS: [Review; 7] = [
    Review {
        group: "",
        version: "v1",
        resource: "bindings",
        kind: "Binding",
        namespaced: true,
        schema: provider::<Binding>,
    },
    review(
        AUTHENTICATION,
        "selfsubjectreviews",
        "SelfSubjectReview",
        provider::<SelfSubjectReview>,
    ),
    review(
        AUTHENTICATION,
        "tokenreviews",
        "TokenReview",
        provider::<TokenReview>,
    ),
    Review {
        namespaced: true,
        ..review(
            AUTHORIZATION,
            "localsubjectaccessreviews",
            "LocalSubjectAccessReview",
            provider::<LocalSubjectAccessReview>,
        )
    },
    review(
        AUTHORIZATION,
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        provider::<SelfSubjectAccessReview>,
    ),
    review(
        AUTHORIZATION,
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        provider::<SelfSubjectRulesReview>,
    ),
    review(
        AUTHORIZATION,
        "subjectaccessreviews",
        "SubjectAccessReview",
        provider::<SubjectAccessReview>,
    ),
];

const fn review(
    group: &'static str,
    resource: &'static str,
    kind: &'static str,
    schema: fn() -> SchemaProvider,
) -> Review {
    Review {
        group,
        version: "v1",
        resource,
        kind,
        namespaced: false,
        schema,
    }
}

/// Those of a group and version.
pub(crate) fn of(group: &str, version: &str) -> impl Iterator<Item = &'static Review> {
    REVIEWS
        .iter()
        .filter(move |review| review.group == group && review.version == version)
}

impl Review {
    /// As discovery and OpenAPI describe resources.
    pub(crate) fn info(&self) -> ResourceInfo {
        ResourceInfo {
            gvr: GroupVersionResource::of(self.group, self.version, self.resource),
            kind: Cow::Borrowed(self.kind),
            singular: Cow::Owned(self.kind.to_lowercase()),
            namespaced: self.namespaced,
            short_names: Vec::new(),
            categories: Vec::new(),
            selectable_fields: Vec::new(),
            storage_prefix: Cow::Borrowed(""),
        }
    }
}
