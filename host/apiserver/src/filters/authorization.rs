//! The first authorizer: administrators and the host's own components may do everything, everybody else may look at what the
//! server offers and nothing more. Source of the texts: <https://kubernetes.io/docs/reference/access-authn-authz/authorization/>

use pilothouse_api::{GroupResource, Status};
use pilothouse_client::UserInfo;

use super::authentication::is_open;
use crate::request_info::RequestInfo;

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

/// Allows, or says who may not do what.
pub(crate) fn authorize(user: &UserInfo, info: &RequestInfo) -> Result<(), Status> {
    let component = COMPONENTS.contains(&user.name.as_str())
        || (user.name.starts_with(PLUGIN_PREFIX) && user.in_group(PLUGIN_GROUP));
    if component || user.in_group(MASTERS) {
        return Ok(());
    }
    let reads = matches!(info.verb, "get" | "head");
    let discovery = user.in_group("system:authenticated")
        && DISCOVERY.iter().any(|d| {
            let rest = info.path.strip_prefix(d);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
    match !info.is_resource && reads && (is_open(&info.path) || discovery) {
        true => Ok(()),
        false => Err(refusal(user, info)),
    }
}

fn refusal(user: &UserInfo, info: &RequestInfo) -> Status {
    let (name, verb) = (&user.name, info.verb);
    if !info.is_resource {
        let text = format!(
            "forbidden: User \"{name}\" cannot {verb} path \"{}\"",
            info.path
        );
        return Status::new(403, "Forbidden", text);
    }
    let resource = match info.subresource.as_str() {
        "" => info.resource.clone(),
        subresource => format!("{}/{subresource}", info.resource),
    };
    let scope = match info.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace \"{namespace}\""),
    };
    let group = &info.group;
    let why = format!(
        "User \"{name}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
    );
    let subject = GroupResource {
        group: group.clone().into(),
        resource: info.resource.clone().into(),
    };
    Status::forbidden(&subject, &info.name, why)
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
}
