use serde_json::{Value, json};

use super::*;

fn deployment(replicas: i32, strategy: Value) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {}, "template": {}, "strategy": strategy},
    }))
    .unwrap()
}

fn rolling(
    replicas: i32,
    max_surge: impl Into<Value>,
    max_unavailable: impl Into<Value>,
) -> Bounds {
    let (max_surge, max_unavailable) = (max_surge.into(), max_unavailable.into());
    let rolling = json!({"maxSurge": max_surge, "maxUnavailable": max_unavailable});
    Bounds::of(&deployment(
        replicas,
        json!({"type": "RollingUpdate", "rollingUpdate": rolling}),
    ))
}

#[test]
fn surge_rounds_up_and_unavailability_down() {
    // replicas, surge, unavailable, expected surge, expected unavailable
    let cases = [
        (10, json!("25%"), json!("25%"), 3, 2),
        (4, json!("25%"), json!("25%"), 1, 1),
        (3, json!("25%"), json!("25%"), 1, 0),
        (1, json!("25%"), json!("25%"), 1, 0),
        (1, json!("0%"), json!("25%"), 0, 1),
        (5, json!(0), json!("10%"), 0, 1),
        (5, json!(0), json!(0), 0, 1),
        (2, json!(0), json!(5), 0, 2),
        (2, json!(5), json!(0), 5, 0),
        (0, json!("25%"), json!("25%"), 0, 0),
        (10, json!("150%"), json!("100%"), 15, 10),
    ];
    for (replicas, surge, unavailable, max_surge, max_unavailable) in cases {
        let bounds = rolling(replicas, surge.clone(), unavailable.clone());
        let found = (bounds.max_surge, bounds.max_unavailable);
        assert_eq!(
            found,
            (max_surge, max_unavailable),
            "{replicas} {surge} {unavailable}"
        );
    }
    let recreate = Bounds::of(&deployment(5, json!({"type": "Recreate"})));
    assert_eq!((recreate.max_surge, recreate.max_unavailable), (0, 0));
}

#[test]
fn the_new_replica_set_fills_the_room_there_is() {
    // replicas, surge, its own, all, expected
    let cases = [
        (10, 3, 0, 10, 3),
        (10, 3, 3, 11, 5),
        (10, 3, 3, 13, 3),
        (10, 3, 3, 15, 3),
        (10, 0, 0, 0, 10),
        (10, 10, 0, 10, 10),
        (10, 10, 9, 9, 10),
        (5, 1, 8, 8, 5),
        (0, 0, 0, 0, 0),
    ];
    for (replicas, surge, own, all, expected) in cases {
        let bounds = rolling(replicas, surge, 1);
        assert_eq!(
            bounds.new_replicas(own, all),
            expected,
            "{replicas} {surge} {own} {all}"
        );
    }
    let recreate = Bounds::of(&deployment(5, json!({"type": "Recreate"})));
    assert_eq!(recreate.new_replicas(0, 0), 5);
}

#[test]
fn old_replica_sets_shrink_within_the_bounds() {
    // replicas, surge, unavailable, old, new, expected
    type Case<'a> = (i32, i32, i32, &'a [Size], Size, &'a [i32]);
    let size = |wanted, available| Size { wanted, available };
    let cases: &[Case] = &[
        // The start: nothing new is available, so only what may be unavailable goes.
        (10, 3, 2, &[size(10, 10)], size(3, 0), &[8]),
        // A full new set that never gets available leaves the old one alone when one of its pods fails.
        (10, 3, 2, &[size(8, 7)], size(5, 0), &[8]),
        // Rolling back from it, the broken pods go first.
        (10, 3, 2, &[size(5, 0)], size(8, 7), &[1]),
        // Nothing is above the minimum.
        (10, 3, 2, &[size(8, 8)], size(5, 0), &[8]),
        (10, 3, 2, &[size(8, 8)], size(5, 5), &[3]),
        // The end.
        (10, 3, 2, &[size(3, 3)], size(10, 10), &[0]),
        // Oldest first, unavailable before available.
        (4, 1, 1, &[size(2, 2), size(2, 1)], size(1, 1), &[1, 1]),
        // More available than wanted, while pods still stop: never grow.
        (4, 1, 1, &[size(1, 3)], size(4, 4), &[0]),
        (10, 0, 1, &[size(10, 10)], size(0, 0), &[9]),
    ];
    for (replicas, surge, unavailable, old, new, expected) in cases {
        let bounds = rolling(*replicas, *surge, *unavailable);
        assert_eq!(
            bounds.shrink_old(old, *new),
            *expected,
            "{replicas} {old:?} {new:?}"
        );
    }
}

/// Whatever the sizes, availability never falls below the minimum by more than what is already missing, and nothing grows.
#[test]
fn shrinking_is_safe_for_all_small_sizes() {
    for replicas in 0..5 {
        for (surge, unavailable) in [(0, 1), (1, 0), (1, 1), (2, 3)] {
            let bounds = rolling(replicas, surge, unavailable);
            for seed in 0..5_i32.pow(5) {
                let digit = |at: u32| seed / 5_i32.pow(at) % 5;
                let old: Vec<Size> = (0..2)
                    .map(|at| Size {
                        wanted: digit(at),
                        available: digit(at).min(digit(at + 2)),
                    })
                    .collect();
                let new = Size {
                    wanted: digit(4),
                    available: digit(4) / 2,
                };
                let shrunk = bounds.shrink_old(&old, new);
                // In the worst case the pods that go are the available ones that the size no longer covers.
                let left: i32 = old
                    .iter()
                    .zip(&shrunk)
                    .map(|(size, to)| size.available.min(*to))
                    .sum();
                let before: i32 = old.iter().map(|size| size.available).sum();
                assert!(
                    shrunk
                        .iter()
                        .zip(&old)
                        .all(|(to, size)| *to <= size.wanted && *to >= 0)
                );
                assert!(left + new.available >= bounds.min_available().min(before + new.available));
            }
        }
    }
}

#[test]
fn scaling_in_the_middle_of_a_rollout_is_proportional() {
    let share = |wanted, before, created_ms| Share {
        wanted,
        max_replicas_before: before,
        created_ms,
    };
    // replicas, surge, shares (newest last), status.replicas, expected
    type Case = (i32, i32, Vec<Share>, i32, &'static [i32]);
    let cases: &[Case] = &[
        (
            15,
            3,
            vec![share(8, Some(13), 1), share(5, Some(13), 2)],
            13,
            &[11, 7],
        ),
        (
            5,
            0,
            vec![share(5, Some(10), 1), share(5, Some(10), 2)],
            10,
            &[2, 3],
        ),
        (
            20,
            0,
            vec![share(5, Some(10), 1), share(5, Some(10), 2)],
            10,
            &[10, 10],
        ),
        (
            0,
            3,
            vec![share(8, Some(13), 1), share(5, Some(13), 2)],
            13,
            &[0, 0],
        ),
        (
            10,
            3,
            vec![share(8, Some(13), 1), share(5, Some(13), 2)],
            13,
            &[8, 5],
        ),
        // Without the annotation the Deployment's own size is the base.
        (
            20,
            0,
            vec![share(6, None, 1), share(4, None, 2)],
            10,
            &[12, 8],
        ),
        // One more for three equals: the newest grows; one less: the oldest shrinks.
        (
            7,
            0,
            vec![
                share(2, Some(6), 1),
                share(2, Some(6), 2),
                share(2, Some(6), 3),
            ],
            6,
            &[2, 2, 3],
        ),
        (
            5,
            0,
            vec![
                share(2, Some(6), 1),
                share(2, Some(6), 2),
                share(2, Some(6), 3),
            ],
            6,
            &[1, 2, 2],
        ),
    ];
    for (replicas, surge, shares, size, expected) in cases {
        let bounds = rolling(*replicas, *surge, 1);
        let sizes = bounds.proportional(shares, *size);
        assert_eq!(sizes, *expected, "{replicas} {shares:?}");
    }
}
