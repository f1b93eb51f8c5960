//! ServiceCIDRs: where services get their addresses. Allocation still goes by the server's own ranges.
//! Source: <https://kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation/>

use k8s_openapi::api::networking::v1::ServiceCIDR;
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::GROUP;
use crate::registry::{
    kinds::{addresses, cells, checks, describe},
    printing::Column,
    strategy::{Keep, Strategy},
};

pub(in crate::registry::kinds) struct ServiceCidrStrategy;

impl Strategy for ServiceCidrStrategy {
    type Object = ServiceCIDR;

    fn resource(&self) -> ResourceInfo {
        describe::cluster_scoped(GROUP, "v1", "servicecidrs", "ServiceCIDR")
    }

    fn prepare_for_status_update(&self) -> Option<Keep<ServiceCIDR>> {
        Some(|new, old| new.spec.clone_from(&old.spec))
    }

    fn validate(&self, cidr: &ServiceCIDR) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec").child("cidrs");
        let cidrs = ranges(cidr);
        match cidrs.len() {
            0 => errors.push(FieldError::required(&path, "at least one CIDR required")),
            1 | 2 => {
                let parsed: Vec<_> = cidrs
                    .iter()
                    .enumerate()
                    .map(|(i, cidr)| addresses::canonical_cidr(&mut errors, &path.index(i), cidr))
                    .collect();
                if let [Some(first), Some(second)] = parsed.as_slice()
                    && first.first.is_ipv4() == second.first.is_ipv4()
                {
                    let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
                    errors.push(FieldError::invalid(&path, cidrs.to_vec(), why));
                }
            }
            _ => errors.push(FieldError::invalid(
                &path,
                json!({ "CIDRs": cidrs }),
                "may only hold up to 2 values",
            )),
        }
        errors
    }

    /// Ranges stay; a second one may come, of the other family.
    fn validate_update(&self, new: &ServiceCIDR, old: &ServiceCIDR) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec").child("cidrs");
        let (new, old) = (ranges(new), ranges(old));
        if new.len() == old.len() || (old.len() == 1 && new.len() == 2) {
            for (i, (new, old)) in new.iter().zip(old).enumerate() {
                checks::immutable(&mut errors, &path.index(i), new == old, new.as_str());
            }
        } else {
            checks::immutable(&mut errors, &path, false, new.to_vec());
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("CIDRs", "The ranges, one of each family at most."),
            Column::AGE,
        ]
    }

    fn row(&self, cidr: &ServiceCIDR, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            json!(cidr.metadata.name),
            json!(ranges(cidr).join(",")),
            json!(cells::since(cidr.metadata.creation_timestamp.as_ref(), now)),
        ]
    }
}

fn ranges(cidr: &ServiceCIDR) -> &[String] {
    let spec = cidr.spec.as_ref();
    spec.and_then(|s| s.cidrs.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::{create_errors, row, update_errors};

    fn of(cidrs: &[&str]) -> Value {
        json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": cidrs}})
    }

    #[test]
    fn ranges_are_of_different_families() {
        for (cidrs, expected) in [
            (vec!["10.96.0.0/16"], vec![]),
            (vec!["10.96.0.0/16", "2001:db8::/64"], vec![]),
            (
                vec![],
                vec!["spec.cidrs: Required value: at least one CIDR required"],
            ),
            (
                vec!["10.96.0.0/16", "10.97.0.0/16"],
                vec![
                    "spec.cidrs: Invalid value: [\"10.96.0.0/16\",\"10.97.0.0/16\"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
                ],
            ),
            (
                vec!["10.96.0.1/16"],
                vec![
                    "spec.cidrs[0]: Invalid value: \"10.96.0.1/16\": must not have bits set beyond the prefix length",
                ],
            ),
            (
                vec!["10.96.0.0/16", "2001:db8::/64", "2001:db8:1::/64"],
                vec![
                    "spec.cidrs: Invalid value: {\"CIDRs\":[\"10.96.0.0/16\",\"2001:db8::/64\",\"2001:db8:1::/64\"]}: may only hold up to 2 values",
                ],
            ),
        ] {
            assert_eq!(create_errors(&ServiceCidrStrategy, &of(&cidrs)), expected);
        }
    }

    #[test]
    fn a_second_family_may_come() {
        let old = ["10.96.0.0/16"];
        for (new, expected) in [
            (vec!["10.96.0.0/16", "2001:db8::/64"], vec![]),
            (
                vec!["10.97.0.0/16"],
                vec!["spec.cidrs[0]: Invalid value: \"10.97.0.0/16\": field is immutable"],
            ),
            (
                vec!["10.97.0.0/16", "2001:db8::/64"],
                vec!["spec.cidrs[0]: Invalid value: \"10.97.0.0/16\": field is immutable"],
            ),
        ] {
            assert_eq!(
                update_errors(&ServiceCidrStrategy, &of(&old), &of(&new)),
                expected
            );
        }
        let both = of(&["10.96.0.0/16", "2001:db8::/64"]);
        assert_eq!(
            update_errors(&ServiceCidrStrategy, &both, &of(&old)),
            ["spec.cidrs: Invalid value: [\"10.96.0.0/16\"]: field is immutable"]
        );
    }

    #[test]
    fn rows() {
        assert_eq!(
            row(
                &ServiceCidrStrategy,
                &of(&["10.96.0.0/16", "2001:db8::/64"])
            ),
            [
                ("Name", json!("kubernetes")),
                ("CIDRs", json!("10.96.0.0/16,2001:db8::/64")),
                ("Age", json!("<unknown>")),
            ]
        );
    }
}
