//! Taints and tolerations.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>

use super::bindings::types::{Taint, Toleration, TolerationOperator};

/// Whether one toleration tolerates a taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration
        .effect
        .is_none_or(|effect| effect == taint.effect);
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    effect
        && key
        && match toleration.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => toleration.value == taint.value,
        }
}

/// Whether every one of these taints is tolerated.
pub fn tolerates_all<'a>(
    tolerations: &[Toleration],
    taints: impl IntoIterator<Item = &'a Taint>,
) -> bool {
    taints
        .into_iter()
        .all(|taint| tolerations.iter().any(|t| tolerates(t, taint)))
}

#[cfg(test)]
mod tests {
    use super::super::bindings::types::Effect;
    use super::*;

    fn toleration(
        key: &str,
        operator: TolerationOperator,
        value: &str,
        effect: Option<Effect>,
    ) -> Toleration {
        Toleration {
            key: key.into(),
            operator,
            value: value.into(),
            effect,
        }
    }

    #[test]
    fn a_taint_is_tolerated_as_documented() {
        use TolerationOperator::{Equal, Exists};
        let taint = Taint {
            key: "k".into(),
            value: "v".into(),
            effect: Effect::NoSchedule,
        };
        let cases = [
            ("k", Equal, "v", Some(Effect::NoSchedule), true),
            ("k", Equal, "v", None, true),
            ("k", Equal, "w", None, false),
            ("k", Equal, "v", Some(Effect::NoExecute), false),
            ("k", Exists, "", Some(Effect::NoSchedule), true),
            ("k", Exists, "", Some(Effect::PreferNoSchedule), false),
            ("", Exists, "", None, true),
            ("", Exists, "", Some(Effect::NoExecute), false),
            ("other", Exists, "", None, false),
        ];
        for (key, operator, value, effect, expected) in cases {
            let toleration = toleration(key, operator, value, effect);
            assert_eq!(tolerates(&toleration, &taint), expected, "{toleration:?}");
        }
    }

    #[test]
    fn every_taint_needs_its_toleration() {
        let taint = |key: &str| Taint {
            key: key.into(),
            value: String::new(),
            effect: Effect::NoSchedule,
        };
        let a = toleration("a", TolerationOperator::Exists, "", None);
        assert!(tolerates_all(&[], &[]));
        assert!(tolerates_all(std::slice::from_ref(&a), &[taint("a")]));
        assert!(!tolerates_all(&[a], &[taint("a"), taint("b")]));
    }
}
