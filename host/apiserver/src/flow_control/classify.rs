//! Which FlowSchema a request belongs to: the first that matches, in the order of precedence.
//! Source: <https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#flowschema>

use http::HeaderValue;
use k8s_openapi::api::flowcontrol::v1::{
    FlowSchema, NonResourcePolicyRule, PolicyRulesWithSubjects, ResourcePolicyRule, Subject,
};
use pilothouse_client::UserInfo;

use crate::{request_info::RequestInfo, service_account_tokens::claims::user_name};

/// All of a server's FlowSchemas, in order.
#[derive(Default)]
pub(super) struct Classifier {
    schemas: Vec<Schema>,
}

/// One of them, with the level it names.
pub(super) struct Schema {
    name: String,
    precedence: i32,
    pub(super) uid: HeaderValue,
    pub(super) level: String,
    pub(super) level_uid: HeaderValue,
    /// Requests of the level are never held up.
    pub(super) is_exempt: bool,
    by: Option<Distinguisher>,
    rules: Vec<PolicyRulesWithSubjects>,
}

/// What makes a flow of a schema's requests.
#[derive(Clone, Copy)]
enum Distinguisher {
    User,
    Namespace,
}

/// A priority level by name.
pub(super) struct LevelOf<'a> {
    pub(super) uid: &'a str,
    pub(super) is_exempt: bool,
}

impl Classifier {
    /// Those of the schemas whose level is there.
    pub(super) fn new<'a>(
        schemas: impl Iterator<Item = FlowSchema>,
        level: impl Fn(&str) -> Option<LevelOf<'a>>,
    ) -> Self {
        let mut schemas: Vec<Schema> = schemas
            .filter_map(|schema| {
                let spec = schema.spec.unwrap_or_default();
                let name = spec.priority_level_configuration.name;
                let found = level(&name)?;
                let method = spec.distinguisher_method.map(|method| method.type_);
                Some(Schema {
                    name: schema.metadata.name.unwrap_or_default(),
                    precedence: spec.matching_precedence.unwrap_or_default(),
                    uid: HeaderValue::from_str(&schema.metadata.uid?).ok()?,
                    level_uid: HeaderValue::from_str(found.uid).ok()?,
                    is_exempt: found.is_exempt,
                    level: name,
                    by: match method.as_deref() {
                        Some("ByUser") => Some(Distinguisher::User),
                        Some("ByNamespace") => Some(Distinguisher::Namespace),
                        _ => None,
                    },
                    rules: spec.rules.unwrap_or_default(),
                })
            })
            .collect();
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        Self { schemas }
    }

    /// The schema of a request.
    pub(super) fn of(&self, user: &UserInfo, info: &RequestInfo) -> Option<&Schema> {
        let matches = |rule: &PolicyRulesWithSubjects| {
            rule.subjects.iter().any(|subject| is_meant(subject, user))
                && match info.is_resource {
                    true => has(&rule.resource_rules, |rule| is_resource(rule, info)),
                    false => has(&rule.non_resource_rules, |rule| is_path(rule, info)),
                }
        };
        let mut schemas = self.schemas.iter();
        schemas.find(|schema| schema.rules.iter().any(matches))
    }
}

impl Schema {
    /// The flow of a request among those of this schema.
    pub(super) fn flow(&self, user: &UserInfo, info: &RequestInfo) -> String {
        let distinguished = match self.by {
            None => "",
            Some(Distinguisher::User) => &user.name,
            Some(Distinguisher::Namespace) => &info.namespace,
        };
        format!("{}/{distinguished}", self.name)
    }
}

fn has<T>(list: &Option<Vec<T>>, is_it: impl FnMut(&T) -> bool) -> bool {
    list.iter().flatten().any(is_it)
}

/// Whether a list names a word, or everything.
fn names(list: &[String], word: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry == word)
}

fn is_meant(subject: &Subject, user: &UserInfo) -> bool {
    match (&subject.user, &subject.group, &subject.service_account) {
        (Some(meant), _, _) => meant.name == "*" || meant.name == user.name,
        (_, Some(meant), _) => meant.name == "*" || user.in_group(&meant.name),
        (_, _, Some(meant)) => match meant.name.as_str() {
            "*" => user.name.starts_with(&user_name(&meant.namespace, "")),
            account => user.name == user_name(&meant.namespace, account),
        },
        _ => false,
    }
}

fn is_resource(rule: &ResourcePolicyRule, info: &RequestInfo) -> bool {
    let resource = || match info.subresource.as_str() {
        "" => names(&rule.resources, &info.resource),
        subresource => names(&rule.resources, &format!("{}/{subresource}", info.resource)),
    };
    names(&rule.verbs, info.verb)
        && names(&rule.api_groups, &info.group)
        && resource()
        && match info.namespace.as_str() {
            "" => rule.cluster_scope == Some(true),
            namespace => names(rule.namespaces.as_deref().unwrap_or_default(), namespace),
        }
}

fn is_path(rule: &NonResourcePolicyRule, info: &RequestInfo) -> bool {
    let is_it = |url: &String| {
        let below = url.trim_end_matches('*').trim_end_matches('/');
        let rest = info.path.strip_prefix(below);
        url == "*" || *url == info.path || rest.is_some_and(|rest| rest.starts_with('/'))
    };
    names(&rule.verbs, info.verb) && rule.non_resource_urls.iter().any(is_it)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::{query::Query, registry::kinds::flow_control::objects};

    fn classifier() -> Classifier {
        let schemas = objects()
            .into_iter()
            .filter(|(of, ..)| *of == "flowschemas");
        let schemas = schemas.map(|(_, name, mut object)| {
            object["metadata"]["uid"] = format!("uid-of-{name}").into();
            serde_json::from_value(object).unwrap()
        });
        Classifier::new(schemas, |name| {
            Some(LevelOf {
                uid: "level",
                is_exempt: name == "exempt",
            })
        })
    }

    #[test]
    fn requests_belong_to_the_first_schema_that_matches() {
        let classifier = classifier();
        let account = "system:serviceaccount:kube-system:deployments";
        let accounts: &[&str] = &["system:serviceaccounts"];
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x";
        // user, groups, method and path, schema and level, flow
        for (user, groups, method, path, schema, level, flow) in [
            (
                "admin",
                &["system:masters"][..],
                "GET",
                "/api/v1/pods",
                "exempt",
                "exempt",
                "exempt/",
            ),
            (
                "alice",
                &[],
                "GET",
                "/api/v1/pods",
                "global-default",
                "global-default",
                "global-default/alice",
            ),
            (
                "alice",
                &[],
                "GET",
                "/readyz",
                "probes",
                "exempt",
                "probes/",
            ),
            (
                "alice",
                &[],
                "GET",
                "/readyz/etcd",
                "probes",
                "exempt",
                "probes/",
            ),
            (
                "alice",
                &[],
                "GET",
                "/readyzz",
                "global-default",
                "global-default",
                "global-default/alice",
            ),
            (
                "alice",
                &[],
                "POST",
                "/readyz",
                "global-default",
                "global-default",
                "global-default/alice",
            ),
            (
                "system:kube-scheduler",
                &[],
                "PUT",
                lease,
                "system-leader-election",
                "leader-election",
                "system-leader-election/system:kube-scheduler",
            ),
            (
                "system:kube-scheduler",
                &[],
                "DELETE",
                lease,
                "kube-scheduler",
                "workload-high",
                "kube-scheduler/kube-system",
            ),
            (
                "system:kube-controller-manager",
                &[],
                "GET",
                "/api/v1/nodes",
                "kube-controller-manager",
                "workload-high",
                "kube-controller-manager/",
            ),
            (
                account,
                accounts,
                "PUT",
                lease,
                "system-leader-election",
                "leader-election",
                "system-leader-election/system:serviceaccount:kube-system:deployments",
            ),
            (
                account,
                accounts,
                "GET",
                "/api/v1/namespaces/a/pods/b",
                "kube-system-service-accounts",
                "workload-high",
                "kube-system-service-accounts/a",
            ),
            (
                "system:serviceaccount:a:b",
                accounts,
                "GET",
                "/api/v1/pods",
                "service-accounts",
                "workload-low",
                "service-accounts/system:serviceaccount:a:b",
            ),
            (
                "system:node:n",
                &["system:nodes"],
                "PATCH",
                "/api/v1/nodes/n/status",
                "system-node-high",
                "node-high",
                "system-node-high/system:node:n",
            ),
            (
                "system:node:n",
                &["system:nodes"],
                "GET",
                "/api/v1/nodes/n/proxy",
                "system-nodes",
                "system",
                "system-nodes/system:node:n",
            ),
        ] {
            let info =
                RequestInfo::parse(&method.parse::<Method>().unwrap(), path, &Query::default());
            let user = UserInfo::new(user, groups);
            let found = classifier.of(&user, &info).unwrap();
            assert_eq!(
                (found.name.as_str(), found.level.as_str()),
                (schema, level),
                "{user:?} {method} {path}"
            );
            assert_eq!(found.flow(&user, &info), flow);
            assert_eq!(found.uid, format!("uid-of-{schema}"));
            assert_eq!(found.is_exempt, level == "exempt");
        }
    }
}
