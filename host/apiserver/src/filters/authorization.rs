//! The first authorizer: administrators and the host's own components may do everything, everybody else may look at what the
//! server offers and nothing more. Source of the texts: <https://kubernetes.io/docs/reference/access-authn-authz/authorization/>

use pilothouse_api::{GroupResource, Status};
use pilothouse_client::UserInfo;

use super::authentication::is_open;
use crate::{
    request_info::RequestInfo,
    service_account_tokens::{CONFIGURATION_PATH, KEY_SET_PATH},
};

/// The group that is never refused.
const MASTERS: &str = "system:masters";

/// The host's own components.
const COMPONENTS: [&str; 3] = [
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
];

/// A plugin acts as `system:plugin:<name>`; the plugin host keeps it within its capabilities.
const PLUGIN_PREFIX: &str = "system:plugin:";
const PLUGIN_GROUP: &str = "system:plugins";

/// Discovery, which every known user may read.
const DISCOVERY: [&str; 3] = ["/api", "/apis", "/openapi"];

/// Where the issuer of service account tokens describes itself: for those who hold such tokens.
const ISSUER: [&str; 2] = [CONFIGURATION_PATH, KEY_SET_PATH];
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// What everybody may ask about themselves.
const SELF_REVIEWS: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

const AUTHENTICATED: &str = "system:authenticated";

/// What somebody wants to do: in a request, or in the question whether they may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    /// False: `path` and `verb` are all there is.
    pub is_resource: bool,
    pub path: &'a str,
    pub verb: &'a str,
    pub group: &'a str,
    pub namespace: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub name: &'a str,
}

impl<'a> From<&'a RequestInfo> for Attributes<'a> {
    fn from(info: &'a RequestInfo) -> Self {
        Self {
            is_resource: info.is_resource,
            path: &info.path,
            verb: info.verb,
            group: &info.group,
            namespace: &info.namespace,
            resource: &info.resource,
            subresource: &info.subresource,
            name: &info.name,
        }
    }
}

/// What somebody may do, as `SelfSubjectRulesReview` lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Resources {
        verbs: &'static [&'static str],
        api_groups: &'static [&'static str],
        resources: &'static [&'static str],
    },
    Paths {
        verbs: &'static [&'static str],
        paths: &'static [&'static str],
    },
}

/// Allows, or says who may not do what.
pub(crate) fn authorize(user: &UserInfo, info: &RequestInfo) -> Result<(), Status> {
    let attributes = Attributes::from(info);
    match allows(user, attributes) {
        true => Ok(()),
        false => Err(refusal(user, attributes)),
    }
}

/// Whether a PUT or an apply may create what is not there.
pub(crate) fn may_create(user: &UserInfo, info: &RequestInfo) -> Result<(), Status> {
    let attributes = Attributes {
        verb: "create",
        ..Attributes::from(info)
    };
    match allows(user, attributes) {
        true => Ok(()),
        false => Err(refusal(user, attributes)),
    }
}

/// The decision.
pub(crate) fn allows(user: &UserInfo, wanted: Attributes<'_>) -> bool {
    if may_everything(user) {
        return true;
    }
    if wanted.is_resource {
        return user.in_group(AUTHENTICATED)
            && wanted.verb == "create"
            && wanted.subresource.is_empty()
            && SELF_REVIEWS.contains(&(wanted.group, wanted.resource));
    }
    let discovery = user.in_group(AUTHENTICATED)
        && DISCOVERY.iter().any(|d| {
            let rest = wanted.path.strip_prefix(d);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
    let issuer = user.in_group(SERVICE_ACCOUNTS) && ISSUER.contains(&wanted.path);
    let get = wanted.verb == "get" || (wanted.verb == "head" && !issuer);
    get && (is_open(wanted.path) || discovery || issuer)
}

/// All that the decision can allow a user.
pub(crate) fn rules(user: &UserInfo) -> Vec<Rule> {
    const ALL: &[&str] = &["*"];
    if may_everything(user) {
        return vec![
            Rule::Resources {
                verbs: ALL,
                api_groups: ALL,
                resources: ALL,
            },
            Rule::Paths {
                verbs: ALL,
                paths: ALL,
            },
        ];
    }
    let mut rules = vec![Rule::Paths {
        verbs: &["get", "head"],
        paths: &[
            "/healthz",
            "/healthz/*",
            "/livez",
            "/livez/*",
            "/readyz",
            "/readyz/*",
            "/version",
            "/version/*",
        ],
    }];
    if user.in_group(SERVICE_ACCOUNTS) {
        rules.push(Rule::Paths {
            verbs: &["get"],
            paths: &ISSUER,
        });
    }
    if user.in_group(AUTHENTICATED) {
        rules.push(Rule::Paths {
            verbs: &["get", "head"],
            paths: &[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/openapi",
                "/openapi/*",
            ],
        });
        rules.push(Rule::Resources {
            verbs: &["create"],
            api_groups: &["authentication.k8s.io"],
            resources: &["selfsubjectreviews"],
        });
        rules.push(Rule::Resources {
            verbs: &["create"],
            api_groups: &["authorization.k8s.io"],
            resources: &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        });
    }
    rules
}

fn may_everything(user: &UserInfo) -> bool {
    COMPONENTS.contains(&user.name.as_str())
        || (user.name.starts_with(PLUGIN_PREFIX) && user.in_group(PLUGIN_GROUP))
        || user.in_group(MASTERS)
}

fn refusal(user: &UserInfo, wanted: Attributes<'_>) -> Status {
    let (name, verb) = (&user.name, wanted.verb);
    if !wanted.is_resource {
        let text = format!(
            "forbidden: User \"{name}\" cannot {verb} path \"{}\"",
            wanted.path
        );
        return Status::new(403, "Forbidden", text);
    }
    let resource = match wanted.subresource {
        "" => wanted.resource.to_owned(),
        subresource => format!("{}/{subresource}", wanted.resource),
    };
    let scope = match wanted.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace \"{namespace}\""),
    };
    let group = wanted.group;
    let why = format!(
        "User \"{name}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
    );
    let subject = GroupResource {
        group: group.to_owned().into(),
        resource: wanted.resource.to_owned().into(),
    };
    Status::forbidden(&subject, wanted.name, why)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::query::Query;

    fn decide(user: &UserInfo, method: Method, target: &str) -> Result<(), Status> {
        authorize(
            user,
            &RequestInfo::parse(&method, target, &Query::default()),
        )
    }

    #[test]
    fn components_and_masters_may_everything() {
        for user in [
            UserInfo::new("admin", &["system:masters"]),
            UserInfo::new("system:kube-scheduler", &[]),
            UserInfo::plugin("web"),
        ] {
            decide(&user, Method::DELETE, "/api/v1/namespaces/a/pods/b").unwrap();
        }
        let imposter = UserInfo::new("system:plugin:web", &[]);
        assert!(decide(&imposter, Method::GET, "/api/v1/pods").is_err());
    }

    #[test]
    fn others_are_told_what_they_may_not() {
        let x = UserInfo::new("x", &["dev"]);
        let cases = [
            (
                "GET",
                "/api/v1/namespaces/default/pods",
                "pods is forbidden: User \"x\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"",
            ),
            (
                "GET",
                "/apis/apps/v1/deployments",
                "deployments.apps is forbidden: User \"x\" cannot list resource \"deployments\" in API group \"apps\" at the cluster scope",
            ),
            (
                "PUT",
                "/api/v1/nodes/n/status",
                "nodes \"n\" is forbidden: User \"x\" cannot update resource \"nodes/status\" in API group \"\" at the cluster scope",
            ),
            (
                "GET",
                "/metrics",
                "forbidden: User \"x\" cannot get path \"/metrics\"",
            ),
        ];
        for (method, path, message) in cases {
            let status = decide(&x, method.parse().unwrap(), path).unwrap_err();
            assert_eq!(
                (status.code, status.reason.as_str(), status.message.as_str()),
                (403, "Forbidden", message)
            );
        }
        for path in ["/api", "/apis/apps/v1", "/openapi/v3", "/version"] {
            decide(&x, Method::GET, path).unwrap();
        }
    }

    #[test]
    fn everybody_may_ask_about_themselves() {
        let x = UserInfo::new("x", &[]);
        let nobody = UserInfo::default();
        for (path, allowed) in [
            ("/apis/authentication.k8s.io/v1/selfsubjectreviews", true),
            (
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                true,
            ),
            (
                "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                true,
            ),
            ("/apis/authorization.k8s.io/v1/subjectaccessreviews", false),
            ("/apis/authentication.k8s.io/v1/tokenreviews", false),
        ] {
            assert_eq!(decide(&x, Method::POST, path).is_ok(), allowed, "{path}");
            assert!(decide(&nobody, Method::POST, path).is_err(), "{path}");
        }
    }

    /// What is listed is what is decided, in both directions, for a sample of questions.
    #[test]
    fn rules_are_what_is_decided() {
        let resource = |verb, group, resource| Attributes {
            is_resource: true,
            verb,
            group,
            resource,
            ..Attributes::default()
        };
        let path = |verb, path| Attributes {
            verb,
            path,
            ..Attributes::default()
        };
        let questions = [
            resource("get", "", "pods"),
            resource("delete", "apps", "deployments"),
            resource("create", "authentication.k8s.io", "selfsubjectreviews"),
            resource("get", "authentication.k8s.io", "selfsubjectreviews"),
            resource("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
            resource("create", "authorization.k8s.io", "subjectaccessreviews"),
            path("get", "/api"),
            path("get", "/apis/apps/v1"),
            path("post", "/api"),
            path("get", "/metrics"),
            path("get", "/healthz/ping"),
            path("head", "/version"),
        ];
        let has = |all: &[&str], one: &str| {
            all.iter().any(|each| match each.strip_suffix('*') {
                Some(prefix) => one.starts_with(prefix),
                None => *each == one,
            })
        };
        for user in [
            UserInfo::new("admin", &["system:masters"]),
            UserInfo::new("x", &[]),
            UserInfo::default(),
        ] {
            for question in questions {
                let listed = rules(&user).into_iter().any(|rule| match rule {
                    Rule::Resources {
                        verbs,
                        api_groups,
                        resources,
                    } => {
                        question.is_resource
                            && has(verbs, question.verb)
                            && has(api_groups, question.group)
                            && has(resources, question.resource)
                    }
                    Rule::Paths { verbs, paths } => {
                        !question.is_resource
                            && has(verbs, question.verb)
                            && has(paths, question.path)
                    }
                });
                assert_eq!(
                    allows(&user, question),
                    listed,
                    "{} {question:?}",
                    user.name
                );
            }
        }
    }
}
