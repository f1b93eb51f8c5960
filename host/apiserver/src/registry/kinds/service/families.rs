//! Which IP families a Service has. Source: <https://kubernetes.io/docs/concepts/services-networking/dual-stack/>

use k8s_openapi::api::core::v1::ServiceSpec;
use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde_json::json;

use super::{EXTERNAL_NAME, HEADLESS, kind_of, validation};

const IPV4: &str = "IPv4";
const IPV6: &str = "IPv6";
const SINGLE: &str = "SingleStack";
const REQUIRE_DUAL: &str = "RequireDualStack";

/// Fills in `ipFamilyPolicy` and `ipFamilies` from what was asked for and what the cluster has.
pub(super) fn fill(
    spec: &mut ServiceSpec,
    old: Option<&ServiceSpec>,
    cluster: &[&'static str],
) -> ErrorList {
    if kind_of(spec) == EXTERNAL_NAME {
        return ErrorList::new();
    }
    let selectorless = spec.selector.as_ref().is_none_or(|s| s.is_empty());
    let unselected_headless = spec.cluster_ip.as_deref() == Some(HEADLESS) && selectorless;
    if spec.ip_family_policy.is_none() {
        let before = old.and_then(|old| old.ip_family_policy.clone());
        let default = if unselected_headless {
            REQUIRE_DUAL
        } else {
            SINGLE
        };
        spec.ip_family_policy = Some(before.unwrap_or_else(|| default.to_owned()));
    }
    let mut errors = ErrorList::new();
    validation::validate_cluster_ips(&mut errors, spec);
    if !errors.is_empty() {
        return errors;
    }
    let single = spec.ip_family_policy.as_deref() == Some(SINGLE);
    fit_to_policy(&mut errors, spec, old, single);
    infer_from_addresses(&mut errors, spec, cluster);
    if !errors.is_empty() {
        return errors;
    }
    let families = spec.ip_families.get_or_insert_default();
    if families.is_empty() && unselected_headless {
        families.extend(cluster.first().map(|family| (*family).to_owned()));
    }
    if unselected_headless {
        if !single {
            add_second(families); // names somebody else's endpoints, so any family goes
        }
        return errors;
    }
    check_cluster(&mut errors, spec, cluster);
    let families = spec.ip_families.get_or_insert_default();
    if errors.is_empty() && families.is_empty() {
        families.extend(cluster.first().map(|family| (*family).to_owned()));
    }
    if errors.is_empty() && !single && cluster.len() == 2 {
        add_second(families);
    }
    errors
}

fn add_second(families: &mut Vec<String>) {
    if let [only] = families.as_slice() {
        let other = if only == IPV4 { IPV6 } else { IPV4 };
        families.push(other.to_owned());
    }
}

/// A single-stack Service has one of each; to get there from two, the policy says so.
fn fit_to_policy(
    errors: &mut ErrorList,
    spec: &mut ServiceSpec,
    old: Option<&ServiceSpec>,
    single: bool,
) {
    let path = Path::new("spec").child("ipFamilyPolicy");
    let policy = json!(spec.ip_family_policy);
    let mut refuse = |why: &str| errors.push(FieldError::invalid(&path, policy.clone(), why));
    let len = |list: &Option<Vec<String>>| list.as_ref().map_or(0, Vec::len);
    if let Some(old) = old {
        if single {
            if spec.cluster_ips == old.cluster_ips {
                spec.cluster_ips.get_or_insert_default().truncate(1);
            }
            if spec.ip_families == old.ip_families {
                spec.ip_families.get_or_insert_default().truncate(1);
            }
        } else {
            if len(&spec.cluster_ips) == 1 && len(&old.cluster_ips) == 2 {
                refuse("must be 'SingleStack' to release the secondary cluster IP");
            }
            if len(&spec.ip_families) == 1 && len(&old.ip_families) == 2 {
                refuse("must be 'SingleStack' to release the secondary IP family");
            }
        }
    }
    if single && len(&spec.cluster_ips) == 2 {
        refuse(
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
        );
    }
    if single && len(&spec.ip_families) == 2 {
        refuse(
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        );
    }
}

fn infer_from_addresses(errors: &mut ErrorList, spec: &mut ServiceSpec, cluster: &[&'static str]) {
    let ips = spec.cluster_ips.clone().unwrap_or_default();
    let families = spec.ip_families.get_or_insert_default();
    for (i, ip) in ips.iter().enumerate().skip(families.len()) {
        if ip == HEADLESS {
            break;
        }
        let family = if ip.contains(':') { IPV6 } else { IPV4 };
        if cluster.contains(&family) {
            families.push(family.to_owned());
        } else {
            let path = Path::new("spec").child("clusterIPs").index(i);
            let why = format!("{family} is not configured on this cluster");
            errors.push(FieldError::invalid(&path, json!(ips), &why));
        }
    }
}

fn check_cluster(errors: &mut ErrorList, spec: &ServiceSpec, cluster: &[&'static str]) {
    let path = Path::new("spec");
    if spec.ip_family_policy.as_deref() == Some(REQUIRE_DUAL) && cluster.len() < 2 {
        errors.push(FieldError::invalid(
            &path.child("ipFamilyPolicy"),
            REQUIRE_DUAL,
            "this cluster is not configured for dual-stack services",
        ));
    }
    for (i, family) in spec.ip_families.iter().flatten().enumerate() {
        if !cluster.contains(&family.as_str()) {
            errors.push(FieldError::invalid(
                &path.child("ipFamilies").index(i),
                family.as_str(),
                "not configured on this cluster",
            ));
        }
    }
}
