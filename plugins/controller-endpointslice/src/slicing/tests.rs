use std::ops::Range;

use super::*;

fn endpoint(number: usize) -> Endpoint {
    let target = TargetRef {
        kind: "Pod".into(),
        name: format!("p{number}"),
        ..TargetRef::default()
    };
    Endpoint {
        addresses: vec![format!("10.0.{}.{}", number / 256, number % 256)],
        target_ref: Some(target),
        ..Endpoint::default()
    }
}

fn endpoints(numbers: Range<usize>) -> Vec<Endpoint> {
    numbers.map(endpoint).collect()
}

fn http() -> Vec<Port> {
    vec![Port {
        name: "http".into(),
        protocol: "TCP".into(),
        port: 80,
        app_protocol: None,
    }]
}

fn wanted(numbers: Range<usize>) -> Vec<(Vec<Port>, Endpoint)> {
    endpoints(numbers)
        .into_iter()
        .map(|endpoint| (http(), endpoint))
        .collect()
}

fn slice(numbers: Range<usize>) -> Existing {
    Existing {
        endpoints: endpoints(numbers),
        ports: http(),
        is_outdated: false,
    }
}

/// The sizes of updated, deleted and created slices.
fn sizes(plan: &Plan) -> (Vec<(usize, usize)>, Vec<usize>, Vec<usize>) {
    let update = plan
        .update
        .iter()
        .map(|(at, content)| (*at, content.endpoints.len()));
    let create = plan.create.iter().map(|content| content.endpoints.len());
    (update.collect(), plan.delete.clone(), create.collect())
}

#[test]
fn the_first_slices_are_full() {
    assert_eq!(
        sizes(&plan(&[], wanted(0..250))),
        (vec![], vec![], vec![100, 100, 50])
    );
}

#[test]
fn nothing_changes_for_the_same_endpoints() {
    let existing = [slice(0..100), slice(100..130)];
    assert_eq!(plan(&existing, wanted(0..130)), Plan::default());
}

#[test]
fn an_endpoint_that_changes_rewrites_its_slice_alone() {
    let existing = [slice(0..100), slice(100..130)];
    let mut wanted = wanted(0..130);
    wanted[3].1.conditions.ready = Some(false);
    let plan = plan(&existing, wanted);
    assert_eq!(sizes(&plan), (vec![(0, 100)], vec![], vec![]));
    assert_eq!(plan.update[0].1.endpoints[3].conditions.ready, Some(false));
}

#[test]
fn new_endpoints_go_where_something_changes_anyway() {
    // Endpoint 0 has gone; five new ones come.
    let existing = [slice(0..60), slice(60..90)];
    assert_eq!(
        sizes(&plan(&existing, wanted(1..95))),
        (vec![(0, 64)], vec![], vec![])
    );
}

#[test]
fn otherwise_to_the_fullest_that_takes_them_all() {
    let existing = [slice(0..40), slice(40..110), slice(110..205)];
    assert_eq!(
        sizes(&plan(&existing, wanted(0..225))),
        (vec![(1, 90)], vec![], vec![])
    );
}

#[test]
fn otherwise_to_a_new_slice() {
    let existing = [slice(0..90), slice(90..180)];
    assert_eq!(
        sizes(&plan(&existing, wanted(0..200))),
        (vec![], vec![], vec![20])
    );
}

#[test]
fn an_emptied_slice_goes() {
    let existing = [slice(0..10), slice(10..20)];
    assert_eq!(
        sizes(&plan(&existing, wanted(0..10))),
        (vec![], vec![1], vec![])
    );
}

#[test]
fn without_endpoints_one_empty_slice_remains() {
    let plan_of_one = plan(&[slice(0..10)], vec![]);
    assert_eq!(
        plan_of_one,
        Plan {
            update: vec![(0, Content::default())],
            ..Plan::default()
        }
    );
    let placeholder = Existing {
        endpoints: vec![],
        ports: vec![],
        is_outdated: false,
    };
    assert_eq!(
        plan(std::slice::from_ref(&placeholder), vec![]),
        Plan::default()
    );
    let outdated = Existing {
        is_outdated: true,
        ..placeholder.clone()
    };
    assert_eq!(
        sizes(&plan(&[outdated], vec![])),
        (vec![(0, 0)], vec![], vec![])
    );
    assert_eq!(sizes(&plan(&[], vec![])), (vec![], vec![], vec![0]));
    // The first endpoint takes the placeholder's place.
    assert_eq!(
        sizes(&plan(&[placeholder], wanted(0..1))),
        (vec![(0, 1)], vec![], vec![])
    );
}

#[test]
fn other_ports_are_another_slice() {
    let mut wanted = wanted(0..2);
    wanted[1].0[0].port = 8080;
    let plan = plan(&[slice(0..1)], wanted);
    assert_eq!(sizes(&plan), (vec![], vec![], vec![1]));
    assert_eq!(plan.create[0].ports[0].port, 8080);
}

#[test]
fn the_same_endpoint_twice_is_one() {
    let doubled = [slice(0..5), slice(0..5)];
    assert_eq!(
        sizes(&plan(&doubled, wanted(0..5))),
        (vec![], vec![1], vec![])
    );
}

/// Whatever the slices were, afterwards each wanted endpoint is in exactly one, none is too large, and a second plan is empty.
#[test]
fn every_plan_leads_to_what_is_wanted() {
    for seed in 0..200_usize {
        let from = seed * 7 % 40;
        let existing = [
            slice(0..seed % 101),
            slice(90..90 + seed * 3 % 100),
            slice(from..from + 1),
        ];
        let wanted = wanted(seed % 13..seed * 5 % 300);
        let applied = apply(&existing, &plan(&existing, wanted.clone()));
        let mut found: Vec<_> = applied
            .iter()
            .flat_map(|slice| &slice.endpoints)
            .map(identity)
            .collect();
        let mut expected: Vec<_> = wanted
            .iter()
            .map(|(_, endpoint)| identity(endpoint))
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "seed {seed}");
        assert!(applied.iter().all(|slice| slice.endpoints.len() <= LARGEST));
        assert_eq!(plan(&applied, wanted), Plan::default(), "seed {seed}");
    }
}

fn apply(existing: &[Existing], plan: &Plan) -> Vec<Existing> {
    let existing_of = |content: &Content| Existing {
        endpoints: content.endpoints.clone(),
        ports: content.ports.clone(),
        is_outdated: false,
    };
    let mut applied = existing.to_vec();
    for (at, content) in &plan.update {
        applied[*at] = existing_of(content);
    }
    let kept = applied
        .iter()
        .enumerate()
        .filter(|(at, _)| !plan.delete.contains(at));
    kept.map(|(_, slice)| slice.clone())
        .chain(plan.create.iter().map(existing_of))
        .collect()
}
