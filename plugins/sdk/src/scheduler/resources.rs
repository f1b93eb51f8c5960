//! Amounts of resources as numbers that can be added and compared.

use super::bindings::types::Quantity;

/// Amounts by resource. The four that nearly every pod and node has are plain fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Thousandths of a CPU.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// How many pods a node takes.
    pub pods: i64,
    /// Extended resources and huge pages, sorted by name.
    pub scalars: Vec<(String, i64)>,
}

impl Resources {
    /// From the interface's list; a name that occurs twice counts twice.
    pub fn from_quantities(quantities: &[Quantity]) -> Self {
        let mut resources = Self::default();
        resources.add(quantities);
        resources
    }

    /// Adds each amount; saturates.
    pub fn add(&mut self, quantities: &[Quantity]) {
        for q in quantities {
            let slot = self.slot(&q.name);
            *slot = slot.saturating_add(q.value);
        }
    }

    /// Takes each amount away; saturates.
    pub fn subtract(&mut self, quantities: &[Quantity]) {
        for q in quantities {
            let slot = self.slot(&q.name);
            *slot = slot.saturating_sub(q.value);
        }
    }

    /// The amount of one resource, 0 if there is none.
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.milli_cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            "pods" => self.pods,
            other => match self.position(other) {
                Ok(at) => self.scalars[at].1,
                Err(_) => 0,
            },
        }
    }

    fn slot(&mut self, name: &str) -> &mut i64 {
        match name {
            "cpu" => &mut self.milli_cpu,
            "memory" => &mut self.memory,
            "ephemeral-storage" => &mut self.ephemeral_storage,
            "pods" => &mut self.pods,
            other => {
                let at = self.position(other).unwrap_or_else(|at| {
                    self.scalars.insert(at, (other.to_owned(), 0));
                    at
                });
                &mut self.scalars[at].1
            }
        }
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.scalars.binary_search_by(|(n, _)| n.as_str().cmp(name))
    }
}

/// A [`Quantity`] of that name.
impl From<(&str, i64)> for Quantity {
    fn from((name, value): (&str, i64)) -> Self {
        Self {
            name: name.to_owned(),
            value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_can_be_taken_away() {
        let list: Vec<Quantity> = [
            ("cpu", 250),
            ("memory", 1 << 30),
            ("pods", 1),
            ("ephemeral-storage", 7),
            ("example.com/gpu", 2),
            ("hugepages-2Mi", 4 << 20),
        ]
        .map(Quantity::from)
        .into();
        let mut resources = Resources::from_quantities(&list);
        for q in &list {
            assert_eq!(resources.get(&q.name), q.value, "{}", q.name);
        }
        assert_eq!(resources.get("example.com/none"), 0);
        resources.subtract(&list);
        for q in &list {
            assert_eq!(resources.get(&q.name), 0, "{}", q.name);
        }
    }

    #[test]
    fn absurd_amounts_saturate() {
        let huge = [Quantity::from(("cpu", i64::MAX))];
        let mut resources = Resources::from_quantities(&huge);
        resources.add(&huge);
        assert_eq!(resources.milli_cpu, i64::MAX);
    }
}
