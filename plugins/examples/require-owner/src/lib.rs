//! An example: every Deployment says who owns it, in a label.

use pilothouse_sdk::{
    Value,
    admission::{Admission, Denial, Entry, Request},
    cluster::Cluster,
};

struct RequireOwner;

impl Admission for RequireOwner {
    fn entry(&self) -> Entry {
        Entry::new("require-owner")
            .on(&["CREATE", "UPDATE"], "apps", &["deployments"])
            .validate_only()
    }

    fn validate(&self, _: &dyn Cluster, request: &Request) -> Result<Vec<String>, Denial> {
        let deployment: Value = request.object()?;
        match deployment["metadata"]["labels"]["owner"].as_str() {
            Some(_) => Ok(Vec::new()),
            None => Err(request.forbidden("label \"owner\" is required")),
        }
    }
}

pilothouse_sdk::export! {
    admission(validate): [RequireOwner],
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::{
        admission::Operation,
        cluster::resources::DEPLOYMENTS,
        json,
        testing::{FakeCluster, admission_request},
    };

    use super::*;

    #[test]
    fn the_label_is_required() {
        let judge = |labels: Value| {
            let object = json!({ "metadata": { "name": "web", "labels": labels } });
            let request = admission_request(&DEPLOYMENTS, Operation::Create, &object);
            RequireOwner.validate(&FakeCluster::new(), &request)
        };
        assert!(judge(json!({ "owner": "team-a" })).is_ok());
        let refused = judge(json!({})).unwrap_err();
        assert_eq!(
            refused.message,
            "deployments.apps \"web\" is forbidden: label \"owner\" is required"
        );
    }
}
