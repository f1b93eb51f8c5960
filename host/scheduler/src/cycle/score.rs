//! Score, normalisation, weights and the choice.

use pilothouse_plugin::manifest::{ExtensionPoint, Normalize};

use super::{Begun, Cycle, Stop};

const MAX_SCORE: i64 = 100;

impl Cycle<'_> {
    /// The best node; among equals, chance decides.
    pub(super) async fn choose(&mut self, begun: &Begun, nodes: &[u32]) -> Result<u32, Stop> {
        let mut totals = vec![0i64; nodes.len()];
        for (&place, (_, scores)) in &begun.outcomes {
            if !scores {
                continue;
            }
            let weight = self.profile.plugins[place].weight;
            let scores = self.score(place, nodes).await?;
            for (total, score) in totals.iter_mut().zip(scores) {
                *total += score * weight; // at most 100 × u32::MAX for each plugin
            }
        }
        let best = totals.iter().copied().max().unwrap_or_default();
        let equals: Vec<u32> = nodes
            .iter()
            .zip(&totals)
            .filter(|(_, total)| **total == best)
            .map(|(node, _)| *node)
            .collect();
        let at = self.pick(equals.len());
        Ok(equals[at])
    }

    /// A plugin's scores, brought to 0..=100.
    async fn score(&mut self, place: usize, nodes: &[u32]) -> Result<Vec<i64>, Stop> {
        let (component, index) = self.address(place);
        let number = self.number;
        let normalizes = self.profile.plugins[place].has(ExtensionPoint::Normalize);
        let called = match self.worker.instance(component) {
            Some(instance) => instance.score(index, number, nodes).await,
            None => return Err(self.fault_of(&[place], "no instance")),
        };
        let mut scores = called.map_err(|error| self.lost(component, &[place], error))?;
        if scores.len() == nodes.len() && normalizes {
            let called = match self.worker.instance(component) {
                Some(instance) => instance.normalize(index, number, nodes, &scores).await,
                None => return Err(self.fault_of(&[place], "no instance")),
            };
            scores = called.map_err(|error| self.lost(component, &[place], error))?;
        }
        if scores.len() != nodes.len() {
            return Err(self.fault_of(&[place], "a score for each node was expected"));
        }
        normalize(&mut scores, self.profile.plugins[place].normalize);
        match scores
            .iter()
            .find(|score| !(0..=MAX_SCORE).contains(*score))
        {
            None => Ok(scores),
            Some(wild) => {
                let why = format!("a score of {wild} is not between 0 and {MAX_SCORE}");
                Err(self.fault_of(&[place], &why))
            }
        }
    }
}

/// What the manifest asked for. Negative scores stay wrong.
pub(crate) fn normalize(scores: &mut [i64], how: Normalize) {
    let highest = scores.iter().copied().max().unwrap_or_default();
    let negative = scores.iter().any(|&score| score < 0);
    if how == Normalize::None || negative {
        return;
    }
    for score in scores {
        let share = match highest {
            0 => 0,
            highest => (i128::from(*score) * i128::from(MAX_SCORE) / i128::from(highest)) as i64,
        };
        *score = match how {
            Normalize::Reverse => MAX_SCORE - share,
            _ => share,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_brought_to_bounds() {
        let cases: [(Normalize, &[i64], &[i64]); 7] = [
            (Normalize::None, &[3, 700], &[3, 700]),
            (Normalize::Highest, &[0, 5, 10], &[0, 50, 100]),
            (Normalize::Highest, &[0, 0], &[0, 0]),
            (Normalize::Reverse, &[0, 5, 10], &[100, 50, 0]),
            (Normalize::Reverse, &[0, 0], &[100, 100]),
            (Normalize::Highest, &[i64::MAX, i64::MAX / 2], &[100, 49]),
            (Normalize::Highest, &[-1, 10], &[-1, 10]),
        ];
        for (how, scores, expected) in cases {
            let mut scores = scores.to_vec();
            normalize(&mut scores, how);
            assert_eq!(scores, expected, "{how:?}");
        }
    }
}
