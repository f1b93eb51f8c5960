//! The order of merged lists: as the patch orders them, and what the patch does not name as the live list has it.

use std::collections::HashMap;

use serde_json::Value;

/// What tells elements apart: the value of the merge key, or the element itself.
pub(super) fn identity<'a>(element: &'a Value, merge_key: Option<&str>) -> &'a Value {
    match merge_key {
        Some(key) => &element[key], // null for what has no such key
        None => element,
    }
}

/// Where identities stand; the first of equal ones counts.
fn places(identities: &[Value]) -> HashMap<&Value, usize> {
    let places = identities.iter().enumerate().rev();
    places.map(|(place, identity)| (identity, place)).collect()
}

/// Sorts `merged`. `patch_order` and `live_order` are identities; elements that the patch names keep its order among each
/// other, the rest keep the live one, and each of the rest goes before the first of the patch's that it preceded.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    live_order: &[Value],
    merge_key: Option<&str>,
) -> Vec<Value> {
    struct Placed {
        element: Value,
        live: Option<usize>,
    }
    let (of_patch_at, live_at) = (places(patch_order), places(live_order));
    let mut of_patch = Vec::new();
    let mut others = Vec::new();
    for element in merged {
        let identity = identity(&element, merge_key);
        let live = live_at.get(identity).copied();
        match of_patch_at.get(identity).copied() {
            Some(at) => of_patch.push((at, Placed { element, live })),
            None => others.push(Placed { element, live }),
        }
    }
    of_patch.sort_by_key(|(at, _)| *at);
    others.sort_by_key(|placed| placed.live.unwrap_or(usize::MAX));

    let mut others = others.into_iter().peekable();
    let mut arranged = Vec::new();
    for (_, placed) in of_patch {
        while let Some(other) = others.next_if(|other| {
            matches!((other.live, placed.live), (Some(other), Some(placed)) if other < placed)
        }) {
            arranged.push(other.element);
        }
        arranged.push(placed.element);
    }
    arranged.extend(others.map(|placed| placed.element));
    arranged
}
