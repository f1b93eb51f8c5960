//! The arithmetic of rollouts: how many replicas each ReplicaSet may have. No I/O.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment>

use std::cmp::Reverse;

use crate::objects::Deployment;

/// What a Deployment allows while it rolls out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) replicas: i32,
    pub(crate) max_surge: i32,
    pub(crate) max_unavailable: i32,
    rolling: bool,
}

/// A ReplicaSet's wanted and available replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) wanted: i32,
    pub(crate) available: i32,
}

/// A ReplicaSet's share in a proportional scaling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) wanted: i32,
    /// The Deployment's replicas and surge when the ReplicaSet was last scaled, from its annotation.
    pub(crate) max_replicas_before: Option<i32>,
    /// Milliseconds since the Unix epoch.
    pub(crate) created_ms: u64,
}

impl Bounds {
    /// Surge rounds up, unavailability down; if both come to 0 one pod may be unavailable, or nothing could move.
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let replicas = deployment.spec.replicas;
        if deployment.is_recreate() {
            return Self {
                replicas,
                max_surge: 0,
                max_unavailable: 0,
                rolling: false,
            };
        }
        let rolling_update = deployment
            .spec
            .strategy
            .rolling_update
            .clone()
            .unwrap_or_default();
        let scaled = |value: Option<pilothouse_sdk::objects::IntOrString>, up| {
            value
                .and_then(|value| value.scaled(replicas, up))
                .unwrap_or(0)
                .max(0)
        };
        let max_surge = scaled(rolling_update.max_surge, true);
        let mut max_unavailable = scaled(rolling_update.max_unavailable, false);
        if max_surge == 0 && max_unavailable == 0 {
            max_unavailable = 1;
        }
        Self {
            replicas,
            max_surge,
            max_unavailable: max_unavailable.min(replicas),
            rolling: true,
        }
    }

    pub(crate) fn min_available(self) -> i32 {
        self.replicas - self.max_unavailable
    }

    /// What ReplicaSets record as `max-replicas`.
    pub(crate) fn max_replicas(self) -> i32 {
        self.replicas.saturating_add(self.max_surge)
    }

    /// How many replicas the new ReplicaSet may have now, where `new` of the `total` wanted ones are its own.
    pub(crate) fn new_replicas(self, new: i32, total: i32) -> i32 {
        if !self.rolling || new > self.replicas {
            return self.replicas;
        }
        let room = self.max_replicas() - total;
        new + room.clamp(0, self.replicas - new)
    }

    /// What the old ReplicaSets, oldest first, may shrink to. Pods that are not available go first, since they keep nobody
    /// waiting; then as many available ones as the new ReplicaSet and the rest make up for.
    pub(crate) fn shrink_old(self, old: &[Size], new: Size) -> Vec<i32> {
        let mut wanted: Vec<i32> = old.iter().map(|size| size.wanted).collect();
        let total = wanted.iter().sum::<i32>() + new.wanted;
        let new_unavailable = new.wanted - new.available;
        let mut unhealthy_to_go = total - self.min_available() - new_unavailable;
        if unhealthy_to_go <= 0 {
            return wanted;
        }
        for (wanted, size) in wanted.iter_mut().zip(old) {
            let goes = (size.wanted - size.available).clamp(0, unhealthy_to_go.max(0));
            *wanted -= goes;
            unhealthy_to_go -= goes;
        }
        let available = old.iter().map(|size| size.available).sum::<i32>() + new.available;
        let mut to_go = available - self.min_available();
        for wanted in &mut wanted {
            let goes = (*wanted).clamp(0, to_go.max(0));
            *wanted -= goes;
            to_go -= goes;
        }
        wanted
    }

    /// The sizes of several active ReplicaSets after the Deployment was scaled in the middle of a rollout: each gets its share
    /// of the difference, and the largest takes what rounding leaves. `deployment_replicas` is `status.replicas`.
    pub(crate) fn proportional(self, shares: &[Share], deployment_replicas: i32) -> Vec<i32> {
        let total: i32 = shares.iter().map(|share| share.wanted).sum();
        let allowed = if self.replicas > 0 {
            self.max_replicas()
        } else {
            0
        };
        let to_add = allowed - total;
        let mut order: Vec<usize> = (0..shares.len()).collect();
        if to_add >= 0 {
            // Largest first; of equals the newer one grows.
            order.sort_by_key(|at| (Reverse(shares[*at].wanted), Reverse(shares[*at].created_ms)));
        } else {
            // Largest first; of equals the older one shrinks.
            order.sort_by_key(|at| (Reverse(shares[*at].wanted), shares[*at].created_ms));
        }
        let mut sizes: Vec<i32> = shares.iter().map(|share| share.wanted).collect();
        let mut added = 0;
        for at in &order {
            let left = to_add - added;
            let fraction = self.fraction(&shares[*at], deployment_replicas);
            let part = match to_add {
                0 => 0,
                1.. => fraction.min(left),
                _ => fraction.max(left),
            };
            sizes[*at] += part;
            added += part;
        }
        if let Some(largest) = order.first() {
            sizes[*largest] = (sizes[*largest] + to_add - added).max(0);
        }
        sizes
    }

    /// By how much a ReplicaSet would change if it kept its part of the whole.
    fn fraction(self, share: &Share, deployment_replicas: i32) -> i32 {
        if self.replicas == 0 {
            return -share.wanted;
        }
        let before = match share.max_replicas_before {
            Some(before) if before != 0 => before,
            _ => deployment_replicas,
        };
        if before == 0 || share.wanted == 0 {
            return 0;
        }
        let grown = i64::from(share.wanted) * i64::from(self.max_replicas());
        let rounded = (grown as f64 / f64::from(before)).round();
        rounded as i32 - share.wanted
    }
}

#[cfg(test)]
mod tests;
