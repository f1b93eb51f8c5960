//! Sets of paths, as trees.
//!
//! Invariants: the nodes of one level are sorted and distinct; a node is a member or has members below it.

use super::{
    path::PathElement,
    schema::{Child, Schema},
};

/// A set of paths below one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet<'a>(Vec<Node<'a>>);

/// A path's last step: whether it is in the set, and what is in it below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node<'a> {
    pub element: PathElement<'a>,
    pub is_member: bool,
    pub below: FieldSet<'a>,
}

impl Node<'_> {
    fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }
}

impl<'a> FieldSet<'a> {
    /// From nodes in any order; of equal ones everything counts.
    pub(super) fn from_nodes(mut nodes: Vec<Node<'a>>) -> Self {
        nodes.retain(|node| !node.is_empty());
        if nodes
            .windows(2)
            .all(|pair| pair[0].element < pair[1].element)
        {
            return Self(nodes);
        }
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        let mut merged: Vec<Node<'a>> = Vec::with_capacity(nodes.len());
        for node in nodes {
            match merged.last_mut() {
                Some(last) if last.element == node.element => {
                    last.is_member |= node.is_member;
                    last.below = std::mem::take(&mut last.below).union(node.below);
                }
                _ => merged.push(node),
            }
        }
        Self(merged)
    }

    /// The set of these paths of plain fields.
    pub fn of_fields(paths: &[&[&'a str]]) -> Self {
        paths.iter().fold(Self::default(), |set, path| {
            let mut below = Self::default();
            for (depth, name) in path.iter().enumerate().rev() {
                below = Self(vec![Node {
                    element: PathElement::field(name),
                    is_member: depth + 1 == path.len(),
                    below,
                }]);
            }
            set.union(below)
        })
    }

    pub(super) fn nodes(&self) -> &[Node<'a>] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The node of a step.
    pub(super) fn at(&self, element: &PathElement<'_>) -> Option<&Node<'a>> {
        let at = self
            .0
            .binary_search_by(|node| node.element.cmp(element))
            .ok()?;
        Some(&self.0[at])
    }

    /// What is in either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut out = Vec::with_capacity(self.0.len() + other.0.len());
        let mut right = other.0.into_iter().peekable();
        for node in self.0 {
            while let Some(before) = right.next_if(|r| r.element < node.element) {
                out.push(before);
            }
            match right.next_if(|r| r.element == node.element) {
                None => out.push(node),
                Some(same) => out.push(Node {
                    element: node.element,
                    is_member: node.is_member || same.is_member,
                    below: node.below.union(same.below),
                }),
            }
        }
        out.extend(right);
        Self(out)
    }

    /// What is here and not there: a path does not stand for those below it.
    #[must_use]
    pub fn difference(self, other: &FieldSet<'_>) -> Self {
        self.subtract(other, false)
    }

    /// What is neither there nor below a path that is there.
    #[must_use]
    pub fn recursive_difference(self, other: &FieldSet<'_>) -> Self {
        self.subtract(other, true)
    }

    fn subtract(self, other: &FieldSet<'_>, recursive: bool) -> Self {
        if other.is_empty() {
            return self;
        }
        let keep = |mut node: Node<'a>| {
            let Some(there) = other.at(&node.element) else {
                return Some(node);
            };
            node.is_member &= !there.is_member;
            node.below = match recursive && there.is_member {
                true => FieldSet::default(),
                false => node.below.subtract(&there.below, recursive),
            };
            (!node.is_empty()).then_some(node)
        };
        Self(self.0.into_iter().filter_map(keep).collect())
    }

    /// What is in both.
    pub fn intersection(&self, other: &FieldSet<'_>) -> Self {
        let both = |node: &Node<'a>| {
            let there = other.at(&node.element)?;
            let node = Node {
                element: node.element.clone(),
                is_member: node.is_member && there.is_member,
                below: node.below.intersection(&there.below),
            };
            (!node.is_empty()).then_some(node)
        };
        Self(self.0.iter().filter_map(both).collect())
    }

    /// Whether any path is in both.
    pub fn overlaps(&self, other: &FieldSet<'_>) -> bool {
        self.0.iter().any(|node| {
            other.at(&node.element).is_some_and(|there| {
                (node.is_member && there.is_member) || node.below.overlaps(&there.below)
            })
        })
    }

    /// What is at or below one of the patterns, whose steps are field names or `*` for anything.
    pub(super) fn matching(self, patterns: &[&[&str]]) -> Self {
        let keep = |node: Node<'a>| {
            let mut deeper: Vec<&[&str]> = Vec::new();
            for pattern in patterns {
                let Some((first, rest)) = pattern.split_first() else {
                    return Some(node); // the pattern ends here: all that is below
                };
                if *first == "*" || node.element == PathElement::field(first) {
                    deeper.push(rest);
                }
            }
            let kept = Node {
                is_member: node.is_member && !deeper.is_empty(),
                below: match deeper.is_empty() {
                    true => FieldSet::default(),
                    false => node.below.matching(&deeper),
                },
                element: node.element,
            };
            (!kept.is_empty()).then_some(kept)
        };
        Self(self.0.into_iter().filter_map(keep).collect())
    }

    /// The same set and every named field that has members below it.
    pub(super) fn with_named_fields<S: Schema>(self, schema: S) -> Self {
        let with = |mut node: Node<'a>| {
            let child = match &node.element {
                PathElement::Field(name) => schema.child(name),
                _ => schema.element().map(Child::entry),
            };
            if let Some(child) = child {
                node.is_member |= child.is_named && !node.below.is_empty();
                node.below = node.below.with_named_fields(child.schema);
            }
            node
        };
        Self(self.0.into_iter().map(with).collect())
    }

    /// Puts what stands below something that is owned as a whole in the place of that whole: its type may have been granular
    /// when the set was made.
    pub(super) fn fitted<S: Schema>(self, schema: S) -> Self {
        let fit = |mut node: Node<'a>| {
            let below = match &node.element {
                PathElement::Field(name) => schema.child(name).map(|child| child.schema),
                _ => schema.element(),
            };
            if let Some(schema) = below.filter(|_| !node.below.is_empty()) {
                match schema.is_atomic() {
                    true => {
                        node.is_member = true;
                        node.below = FieldSet::default();
                    }
                    false => node.below = node.below.fitted(schema),
                }
            }
            node
        };
        Self(self.0.into_iter().map(fit).collect())
    }

    /// All paths as messages show them: those of a level before those below it.
    pub fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.collect_paths("", &mut out);
        out
    }

    fn collect_paths(&self, prefix: &str, out: &mut Vec<String>) {
        let members = self.0.iter().filter(|node| node.is_member);
        out.extend(members.map(|node| format!("{prefix}{}", node.element)));
        for node in self.0.iter().filter(|node| !node.below.is_empty()) {
            node.below
                .collect_paths(&format!("{prefix}{}", node.element), out);
        }
    }
}
