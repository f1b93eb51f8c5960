//! Bounds that fit each other: least, requested, limit, most.

use std::collections::{BTreeSet, HashSet};

use k8s_openapi::api::core::v1::LimitRangeItem;
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    quantity::{Format, Quantity},
};

use super::{CLAIM, CONTAINER, POD};
use crate::registry::kinds::{
    checks,
    persistent_volume_claim::spec::STORAGE,
    pod::resources::{self, ResourceList},
};

pub(super) fn validate(errors: &mut ErrorList, path: &Path, limits: &[LimitRangeItem]) {
    let mut types = HashSet::new();
    for (i, limit) in limits.iter().enumerate() {
        let path = path.index(i);
        let type_path = path.child("type");
        validate_type(errors, &type_path, &limit.type_);
        if !types.insert(limit.type_.as_str()) {
            errors.push(FieldError::duplicate(&type_path, limit.type_.as_str()));
        }
        validate_names(errors, &path, limit);
        let lists = [
            &limit.max,
            &limit.min,
            &limit.default,
            &limit.default_request,
        ];
        let names: BTreeSet<&String> = lists.into_iter().flatten().flat_map(|l| l.keys()).collect();
        for name in names {
            validate_amounts(errors, &path, limit, name);
        }
    }
}

fn validate_type(errors: &mut ErrorList, path: &Path, value: &str) {
    let before = errors.len();
    checks::qualified_name(errors, path, value);
    let standard = [POD, CONTAINER, CLAIM].contains(&value);
    if errors.len() == before && !value.contains('/') && !standard {
        errors.push(FieldError::invalid(
            path,
            value,
            "must be a standard limit type or fully qualified",
        ));
    }
}

fn validate_names(errors: &mut ErrorList, path: &Path, limit: &LimitRangeItem) {
    let of_containers = limit.type_ == POD || limit.type_ == CONTAINER;
    for (field, list) in [
        ("max", &limit.max),
        ("min", &limit.min),
        ("default", &limit.default),
        ("defaultRequest", &limit.default_request),
        ("maxLimitRequestRatio", &limit.max_limit_request_ratio),
    ] {
        let Some(list) = list.as_ref().filter(|list| !list.is_empty()) else {
            continue;
        };
        let path = path.child(field);
        if limit.type_ == POD && matches!(field, "default" | "defaultRequest") {
            errors.push(FieldError::forbidden(
                &path,
                "may not be specified when `type` is 'Pod'",
            ));
            continue;
        }
        for (name, quantity) in list {
            let path = path.key(name);
            match of_containers {
                true => resources::validate_container_resource_name(errors, &path, name),
                false => resources::validate_resource_name(errors, &path, name),
            }
            if let Err(error) = Quantity::parse(&quantity.0) {
                let text = quantity.0.as_str();
                errors.push(FieldError::invalid(&path, text, &error.to_string()));
            }
        }
    }
    let bounds =
        |list: &Option<ResourceList>| list.as_ref().is_some_and(|l| l.contains_key(STORAGE));
    if limit.type_ == CLAIM && !bounds(&limit.min) && !bounds(&limit.max) {
        errors.push(FieldError::required(
            &path.child("limits"),
            "either minimum or maximum storage value is required, but neither was provided",
        ));
    }
}

/// An amount as it was written, and as a number.
struct Amount<'a> {
    text: &'a str,
    number: Quantity,
}

fn amount<'a>(list: &'a Option<ResourceList>, name: &str) -> Option<Amount<'a>> {
    let text = list.as_ref()?.get(name)?.0.as_str();
    let number = Quantity::parse(text).ok()?;
    Some(Amount { text, number })
}

fn validate_amounts(errors: &mut ErrorList, path: &Path, limit: &LimitRangeItem, name: &str) {
    let is_pod = limit.type_ == POD;
    let (min, max) = (amount(&limit.min, name), amount(&limit.max, name));
    let default = amount(&limit.default, name).filter(|_| !is_pod);
    let request = amount(&limit.default_request, name).filter(|_| !is_pod);
    let ratio = amount(&limit.max_limit_request_ratio, name);
    let mut in_order = |field: &str, shown: usize, pair: [(&str, &Option<Amount<'_>>); 2]| {
        let [(low_name, Some(low)), (high_name, Some(high))] = pair else {
            return;
        };
        if low.number > high.number {
            let why = format!(
                "{low_name} value {} is greater than {high_name} value {}",
                low.text, high.text
            );
            let value = [low.text, high.text][shown];
            errors.push(FieldError::invalid(
                &path.child(field).key(name),
                value,
                &why,
            ));
        }
    };
    in_order("min", 0, [("min", &min), ("max", &max)]);
    let requested = ("default request", &request);
    in_order("defaultRequest", 1, [("min", &min), requested]);
    in_order("defaultRequest", 0, [requested, ("max", &max)]);
    in_order(
        "defaultRequest",
        0,
        [requested, ("default limit", &default)],
    );
    in_order("default", 0, [("min", &min), ("default", &default)]);
    in_order("default", 1, [("default", &default), ("max", &max)]);
    if let Some(ratio) = ratio {
        let path = path.child("maxLimitRequestRatio").key(name);
        validate_ratio(errors, &path, &ratio, min.as_ref(), max.as_ref());
    }
    if let (Some(default), Some(request)) = (&default, &request)
        && !resources::is_overcommit_allowed(name)
        && default.number != request.number
    {
        let why = format!(
            "default value {} must equal to defaultRequest value {} in {name}",
            default.text, request.text
        );
        let path = path.child("defaultRequest").key(name);
        errors.push(FieldError::invalid(&path, request.text, &why));
    }
}

fn validate_ratio(
    errors: &mut ErrorList,
    path: &Path,
    ratio: &Amount<'_>,
    min: Option<&Amount<'_>>,
    max: Option<&Amount<'_>>,
) {
    if ratio.number < Quantity::from_value(1, Format::DecimalSi) {
        let why = format!("ratio {} is less than 1", ratio.text);
        errors.push(FieldError::invalid(path, ratio.text, &why));
    }
    let (Some(min), Some(max)) = (min, max) else {
        return;
    };
    let float = |amount: &Amount<'_>| amount.number.milli_value() as f64 / 1000.0;
    let most = float(max) / float(min);
    if float(ratio) > most {
        let why = format!("ratio {} is greater than max/min = {most:.6}", ratio.text);
        errors.push(FieldError::invalid(path, ratio.text, &why));
    }
}
